//! How a PMU encodes an event: its format files in sysfs, such as `config:0-7,32-35`.

use std::collections::BTreeMap;
use std::fmt;

/// What `perf_event_open` takes for an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// Type of the PMU.
    pub kind: u32,
    /// `config`, `config1`, `config2` and `config3`.
    pub config: [u64; 4],
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {} config {:#x}", self.kind, self.config[0])?;
        for (i, word) in self.config.iter().enumerate().skip(1) {
            if *word != 0 {
                write!(f, " config{i} {word:#x}")?;
            }
        }
        Ok(())
    }
}

/// Where the bits of a field go: a word of the encoding, and ranges of its bits from the least
/// significant of the field on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    word: usize,
    ranges: Vec<(u32, u32)>,
}

impl Format {
    /// From the text of a format file; `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Format> {
        let (word, bits) = text.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            "config3" => 3,
            _ => return None,
        };
        let range = |part: &str| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
            (low <= high && high < 64).then_some((low, high))
        };
        let ranges = bits.split(',').map(range).collect::<Option<Vec<_>>>()?;
        Some(Format { word, ranges })
    }

    /// Bits that it holds.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.ranges.iter().map(|(low, high)| high - low + 1).sum()
    }

    /// Put `value` into `config`; false if it has more bits than the field.
    fn put(&self, value: u64, config: &mut [u64; 4]) -> bool {
        let mut rest = value;
        for &(low, high) in &self.ranges {
            let width = high - low + 1;
            let mask = u64::MAX >> (64 - width);
            config[self.word] |= (rest & mask) << low;
            rest = rest.checked_shr(width).unwrap_or(0);
        }
        rest == 0
    }
}

/// `fields` of an event by the `formats` of the PMU of type `kind`; why not is one clause.
pub fn encode<'a>(
    kind: u32,
    formats: &BTreeMap<String, Format>,
    fields: impl IntoIterator<Item = (&'a str, u64)>,
) -> Result<Encoding, String> {
    let mut config = [0; 4];
    for (name, value) in fields {
        let Some(format) = formats.get(name) else {
            // A field of 0 is as good as one that is not there.
            if value == 0 {
                continue;
            }
            let known: Vec<&str> = formats.keys().map(String::as_str).collect();
            return Err(format!(
                "the PMU has no field {name} (its format has {})",
                match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                }
            ));
        };
        if !format.put(value, &mut config) {
            return Err(format!(
                "{name} = {value:#x} is more than the {} bits of the PMU's field",
                format.width()
            ));
        }
    }
    Ok(Encoding { kind, config })
}

/// The fields of an event file such as `event=0xd1,umask=0x20` or `event=0xcd,umask=0x1,ldlat=3`;
/// `None` if a part has no value that is a number (`config=?`). A bare name is 1.
#[must_use]
pub fn fields(text: &str) -> Option<Vec<(String, u64)>> {
    let field = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, "1"));
        let value = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.parse().ok()?,
        };
        (!name.is_empty()).then(|| (name.to_owned(), value))
    };
    text.trim().split(',').map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats, the fields of an event, its four words.
    type Case<'a> = (&'a BTreeMap<String, Format>, &'a [(&'a str, u64)], [u64; 4]);

    fn formats(files: &[(&str, &str)]) -> BTreeMap<String, Format> {
        let read = |&(name, text): &(&str, &str)| {
            (
                name.to_owned(),
                Format::parse(text).unwrap_or_else(|| panic!("{text}")),
            )
        };
        files.iter().map(read).collect()
    }

    /// Intel: event in bits 0 to 7, umask 8 to 15, cmask 24 to 31. AMD: event also in 32 to 35, so
    /// event 0x28f, umask 0x04 is 0x8f | 0x04 << 8 | 0x2 << 32. A field may lie in config1, and one
    /// of 64 bits takes all.
    #[test]
    fn fields_go_where_the_format_says() {
        let intel = formats(&[
            ("event", "config:0-7"),
            ("umask", "config:8-15"),
            ("edge", "config:18"),
            ("cmask", "config:24-31\n"),
            ("ldlat", "config1:0-15"),
            ("offcore_rsp", "config1:0-63"),
        ]);
        let amd = formats(&[("event", "config:0-7,32-35"), ("umask", "config:8-15")]);
        let cases: [Case<'_>; 7] = [
            (
                &intel,
                &[("event", 0xd1), ("umask", 0x20)],
                [0x20d1, 0, 0, 0],
            ),
            (
                &intel,
                &[("event", 0xa3), ("umask", 0x14), ("cmask", 0x14)],
                [0x1400_14a3, 0, 0, 0],
            ),
            (
                &intel,
                &[("event", 0xcd), ("edge", 1), ("ldlat", 3)],
                [0x4_00cd, 3, 0, 0],
            ),
            (
                &intel,
                &[("event", 0xb7), ("offcore_rsp", u64::MAX)],
                [0xb7, u64::MAX, 0, 0],
            ),
            (&intel, &[("event", 0xc0), ("nothing", 0)], [0xc0, 0, 0, 0]),
            (
                &amd,
                &[("event", 0x28f), ("umask", 0x04)],
                [0x2_0000_048f, 0, 0, 0],
            ),
            (&amd, &[("event", 0x76)], [0x76, 0, 0, 0]),
        ];
        for (formats, fields, config) in cases {
            let encoded = encode(4, formats, fields.iter().copied()).unwrap();
            assert_eq!(encoded, Encoding { kind: 4, config }, "{fields:?}");
        }
    }

    /// A value that does not fit, and a field that is not there, are sentences that say what is.
    #[test]
    fn what_cannot_be_encoded_is_said() {
        let formats = formats(&[("event", "config:0-7"), ("umask", "config:8-15")]);
        let wide = encode(4, &formats, [("event", 0x1c7)]).unwrap_err();
        assert_eq!(
            wide,
            "event = 0x1c7 is more than the 8 bits of the PMU's field"
        );
        let unknown = encode(4, &formats, [("cmask", 5)]).unwrap_err();
        assert!(
            unknown.contains("no field cmask (its format has event, umask)"),
            "{unknown}"
        );
        let none = encode(4, &BTreeMap::new(), [("event", 5)]).unwrap_err();
        assert!(none.contains("has none"), "{none}");
    }

    #[test]
    fn hostile_format_files_are_refused() {
        for text in [
            "",
            "config",
            "config:",
            "config4:0-7",
            "config:7-0",
            "config:0-64",
            "config:-1",
            "config:0-7,",
            "config:a",
        ] {
            assert_eq!(Format::parse(text), None, "{text:?}");
        }
        assert_eq!(Format::parse("config:0-7,32-35").unwrap().width(), 12);
    }

    #[test]
    fn event_files_are_read() {
        let field = |name: &str, value| (name.to_owned(), value);
        for (text, expected) in [
            (
                "event=0xd1,umask=0x20\n",
                Some(vec![field("event", 0xd1), field("umask", 0x20)]),
            ),
            ("event=0x0011", Some(vec![field("event", 0x11)])),
            (
                "event=0xcd,ldlat=3,edge",
                Some(vec![
                    field("event", 0xcd),
                    field("ldlat", 3),
                    field("edge", 1),
                ]),
            ),
            ("event=?", None),
            ("event=0x", None),
            ("", None),
        ] {
            assert_eq!(fields(text), expected, "{text:?}");
        }
    }

    /// The other words of an encoding are shown where they are not 0.
    #[test]
    fn an_encoding_is_shown() {
        let mut encoding = Encoding {
            kind: 4,
            config: [0x20d1, 0, 0, 0],
        };
        assert_eq!(encoding.to_string(), "type 4 config 0x20d1");
        encoding.config[1] = 3;
        assert_eq!(encoding.to_string(), "type 4 config 0x20d1 config1 0x3");
    }
}
