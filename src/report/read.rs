//! Files of a results folder: TOML, and CSV by header. Every complaint is one sentence.

use super::ReportError;
use crate::record::SCHEMA;
use serde::de::{DeserializeOwned, Visitor, value::Error};
use std::path::Path;

/// A TOML file.
pub fn read_toml(path: &Path) -> Result<toml::Table, ReportError> {
    let text = std::fs::read_to_string(path).map_err(|source| ReportError::Read {
        file: path.to_path_buf(),
        source,
    })?;
    text.parse()
        .map_err(|e: toml::de::Error| ReportError::Toml {
            file: path.to_path_buf(),
            message: e.message().replace('\n', " "),
        })
}

/// Refuses another version of the columns.
pub fn schema_of(path: &Path, schema: Option<&toml::Value>) -> Result<(), ReportError> {
    match schema {
        Some(toml::Value::Integer(s)) if *s == i64::from(SCHEMA) => Ok(()),
        found => Err(ReportError::Schema {
            file: path.to_path_buf(),
            found: found.map_or("nothing".to_string(), ToString::to_string),
        }),
    }
}

/// Experiments in `run.toml`: tables with `kernel`, and strings that hold such a table as text.
pub fn find_experiments(table: &toml::Table, out: &mut Vec<toml::Table>) {
    let is = |t: &toml::Table| {
        t.contains_key("kernel") && (t.contains_key("variants") || t.contains_key("question"))
    };
    if is(table) {
        out.push(table.clone());
        return;
    }
    for value in table.values() {
        find_in_value(value, out);
    }
}

fn find_in_value(value: &toml::Value, out: &mut Vec<toml::Table>) {
    match value {
        toml::Value::Table(t) => find_experiments(t, out),
        toml::Value::Array(items) => {
            for item in items {
                find_in_value(item, out);
            }
        }
        toml::Value::String(text) if text.contains('\n') => {
            if let Ok(t) = text.parse::<toml::Table>() {
                find_experiments(&t, out);
            }
        }
        _ => {}
    }
}

/// Every row of one CSV file, by header. A column more does no harm, a column less is an error.
pub fn rows<T: DeserializeOwned>(path: &Path, mut each: impl FnMut(T)) -> Result<(), ReportError> {
    if !path.is_file() {
        return Err(ReportError::NoFile(path.to_path_buf()));
    }
    let wrong = |e: csv::Error| csv_error(path, &e);
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    let headers = reader.headers().map_err(wrong)?.clone();
    if let Some(column) = columns::<T>()
        .iter()
        .find(|c| !headers.iter().any(|h| h == **c))
    {
        return Err(ReportError::Column {
            file: path.to_path_buf(),
            column: (*column).to_string(),
        });
    }
    let schema = headers.iter().position(|h| h == "schema");
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(wrong)? {
        if let Some(found) = schema.and_then(|i| record.get(i))
            && found.parse() != Ok(SCHEMA)
        {
            return Err(ReportError::Schema {
                file: path.to_path_buf(),
                found: found.to_string(),
            });
        }
        each(record.deserialize(Some(&headers)).map_err(wrong)?);
    }
    Ok(())
}

/// The columns of a row type, by its field names.
fn columns<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It always fails: there is nothing to read, only the names are wanted.
    let _: Result<T, Error> = T::deserialize(Names(&mut names));
    names
}

/// A source of nothing that notes the field names it is asked for.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> serde::Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("only names"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn csv_error(path: &Path, error: &csv::Error) -> ReportError {
    let file = path.to_path_buf();
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let message = err.to_string();
            ReportError::Row {
                file,
                line,
                message: message.replace('\n', " "),
            }
        }
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => ReportError::Row {
            file,
            line,
            message: format!(
                "{len} cells where the header has {expected_len}, as if the file were cut"
            ),
        },
        _ => ReportError::Row {
            file,
            line,
            message: error.to_string().replace('\n', " "),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The experiment is found as text or as a table; other strings are not taken for one.
    #[test]
    fn experiments_in_run_toml() {
        let table: toml::Table = "a = \"\"\"\nkernel = \"k\"\nvariants = [\"v\"]\n\"\"\"\nb = \"x\\ny\"\n[c]\nkernel = \"l\"\nquestion = \"?\"\n"
            .parse()
            .unwrap();
        let mut out = Vec::new();
        find_experiments(&table, &mut out);
        let kernels: Vec<&str> = out.iter().filter_map(|t| t["kernel"].as_str()).collect();
        assert_eq!(kernels, ["k", "l"]);
    }

    /// The columns are those of the row type, in its order; missing ones are found although an
    /// optional value would not need them.
    #[test]
    fn columns_come_from_the_row_type() {
        let columns = columns::<crate::record::Summary>();
        assert_eq!(columns[..2], ["schema", "experiment"]);
        assert!(columns.contains(&"ci_low") && columns.contains(&"status"));
    }
}
