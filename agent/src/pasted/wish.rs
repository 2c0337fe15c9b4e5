//! What `--container` says.

use super::PastedError;
use super::pair::{Declared, Found, Sides};

/// The fewest digits of an id that are taken for one.
const SHORT_ID: usize = 12;

/// One `KEY` or `KEY=NAME`. Positions in both lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// The key as it was written.
    pub(super) key: String,
    pub(super) declared: usize,
    /// None: the one that nothing else is known of.
    pub(super) found: Option<usize>,
}

impl Wish {
    /// Each key and each container can be asked for once.
    pub(super) fn read_all(sides: Sides<'_>, texts: &[String]) -> Result<Vec<Self>, PastedError> {
        let mut wishes: Vec<Self> = Vec::new();
        for text in texts {
            let wish = Self::read(sides, text)?;
            let is_again = |other: &Self| {
                other.declared == wish.declared || (wish.found.is_some() && other.found == wish.found)
            };
            if wishes.iter().any(is_again) {
                return Err(PastedError::AskedTwice { wish: text.clone() });
            }
            wishes.push(wish);
        }
        Ok(wishes)
    }

    fn read(sides: Sides<'_>, text: &str) -> Result<Self, PastedError> {
        let (key, name) = text.split_once('=').map_or((text, None), |(key, name)| (key, Some(name)));
        let declared = find_declared(sides.declared, key)?;
        // Where there is one only, it is the one that is meant.
        let only = (sides.found.len() == 1).then_some(0);
        let found = match name {
            Some(name) => Some(find(sides, name)?),
            None => only,
        };
        Ok(Self { key: key.to_owned(), declared, found })
    }
}

/// `KEY`, or `MODULE/KEY`.
fn find_declared(declared: &[Declared], key: &str) -> Result<usize, PastedError> {
    let is_meant = |one: &Declared| one.key == key || format!("{}/{}", one.module, one.key) == key;
    let meant: Vec<usize> = (0..declared.len()).filter(|position| is_meant(&declared[*position])).collect();
    match meant.as_slice() {
        [one] => Ok(*one),
        [] => Err(PastedError::NoSuchKey {
            key: key.to_owned(),
            declared: declared.iter().map(|one| one.key.clone()).collect(),
        }),
        _ => Err(PastedError::WhichModule { key: key.to_owned() }),
    }
}

/// A pasted container by name or id.
fn find(sides: Sides<'_>, name: &str) -> Result<usize, PastedError> {
    let by_name = sides.found.iter().position(|one| one.name == name);
    let is_id = |one: &Found| name.len() >= SHORT_ID && one.id.starts_with(name);
    by_name.or_else(|| sides.found.iter().position(is_id)).ok_or_else(|| PastedError::NoSuchContainer {
        name: name.to_owned(),
        files: sides.files.to_owned(),
        found: sides.found.iter().map(|one| one.name.clone()).collect(),
    })
}
