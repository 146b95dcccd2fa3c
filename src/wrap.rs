//! Text broken into lines, for terminals and mails.

/// `text` in lines of at most `width` columns: `first` before the first one, `rest` before the
/// others. Words stay whole unless one is longer than a line. Ends in a newline unless empty.
#[must_use]
pub fn wrap(text: &str, width: usize, first: &str, rest: &str) -> String {
    let mut out = String::new();
    let mut line = first.to_string();
    let mut empty = true;
    for word in text.split_whitespace() {
        let mut word = word;
        loop {
            let used = line.chars().count() + usize::from(!empty);
            let size = word.chars().count();
            if used + size <= width {
                if !empty {
                    line.push(' ');
                }
                line.push_str(word);
                empty = false;
                break;
            }
            if empty {
                let room = width.saturating_sub(line.chars().count()).max(1);
                let cut = word.char_indices().nth(room).map_or(word.len(), |(i, _)| i);
                line.push_str(&word[..cut]);
                word = &word[cut..];
            }
            out.push_str(line.trim_end());
            out.push('\n');
            line = rest.to_string();
            empty = true;
        }
    }
    if !empty {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No line may be longer than asked for, whatever the words; no word may be lost.
    #[test]
    fn wrapping_keeps_words_and_width() {
        let long = "x".repeat(50);
        for text in ["", "a", "a bb ccc dddd eeeee ffffff", long.as_str()] {
            let wrapped = wrap(text, 10, "", "  ");
            assert!(
                wrapped.lines().all(|l| l.chars().count() <= 10),
                "{wrapped}"
            );
            let squeezed: String = wrapped.split_whitespace().collect();
            assert_eq!(squeezed, text.split_whitespace().collect::<String>());
        }
    }

    #[test]
    fn the_first_line_has_its_own_beginning() {
        assert_eq!(wrap("aa bb cc", 7, "- ", "  "), "- aa bb\n  cc\n");
    }
}
