//! A command line into words, as a POSIX shell splits it, and nothing else that a shell does: `$`, `*`, `#`, `|` are
//! letters here.

/// The words, or what is not closed.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(character) => word.push(character),
                        None => return Err("a single quote is not closed"),
                    }
                }
            }
            '"' => double(&mut characters, word.get_or_insert_default())?,
            '\\' => match characters.next() {
                Some('\n') => {}
                Some(character) => word.get_or_insert_default().push(character),
                None => return Err("a backslash stands at the end"),
            },
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double(characters: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), &'static str> {
    loop {
        match characters.next() {
            Some('"') => return Ok(()),
            Some('\\') => match characters.next() {
                Some('\n') => {}
                Some(character @ ('"' | '\\' | '$' | '`')) => word.push(character),
                Some(character) => word.extend(['\\', character]),
                None => return Err("a double quote is not closed"),
            },
            Some(character) => word.push(character),
            None => return Err("a double quote is not closed"),
        }
    }
}
