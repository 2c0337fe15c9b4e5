//! Which pasted container stands for which declared one.

use super::PastedError;

/// A declared container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) module: String,
    pub(super) key: String,
    /// Its name at the engine.
    pub(super) name: String,
}

/// A pasted container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) name: String,
    /// Module and key in its labels.
    pub(super) owner: Option<(String, String)>,
    /// Others refer to it: it may be there only so that its name is known.
    pub(super) is_referred_to: bool,
}

/// Why two belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Labels,
    Name,
    Asked,
    OnlyOne,
}

/// Positions in both lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) declared: usize,
    pub(super) found: usize,
    pub(super) why: Why,
}

/// Pairs by labels, then by name; then by the wish (`--container`), or what is left if that is one of each. A container
/// that is left over is an error, unless there is another reason for its being there: its labels name a module that is
/// planned (it left the declaration), it has the name of a declared container (which is taken then), or others refer to it.
pub(super) fn pair(
    declared: &[Declared],
    found: &[Found],
    wish: Option<&str>,
    files: &str,
) -> Result<Vec<Pair>, PastedError> {
    let mut pairs: Vec<Pair> = Vec::new();
    let asked = wish.map(|wish| find(declared, wish)).transpose()?;
    // Whoever pastes one container and says what it is need not be asked about its labels.
    if !(found.len() == 1 && asked.is_some()) {
        let owned = |container: &Found| {
            let (module, key) = container.owner.as_ref()?;
            declared.iter().position(|one| one.module == *module && one.key == *key)
        };
        let named = |container: &Found| {
            let position = declared.iter().position(|one| one.name == container.name)?;
            container.owner.is_none().then_some(position)
        };
        add(&mut pairs, found, Why::Labels, owned);
        add(&mut pairs, found, Why::Name, named);
    }
    let is_open = |pairs: &[Pair], position: usize| !pairs.iter().any(|pair| pair.found == position);
    let open: Vec<usize> = (0..found.len()).filter(|position| is_open(&pairs, *position)).collect();
    let needs_one = |position: &&usize| !explained(&found[**position], declared);
    let mut needing: Vec<usize> = open.iter().filter(needs_one).copied().collect();
    let describe = |positions: &[usize]| -> Vec<String> {
        positions.iter().map(|position| found[*position].describe()).collect()
    };
    let left: Vec<usize> =
        (0..declared.len()).filter(|one| !pairs.iter().any(|pair| pair.declared == *one)).collect();
    if let (Some(asked), Some(wish)) = (asked, wish) {
        if let Some(pair) = pairs.iter().find(|pair| pair.declared == asked) {
            let why = if pair.why == Why::Labels { "by its labels" } else { "by its name" };
            return Err(PastedError::Taken {
                key: wish.to_owned(),
                found: found[pair.found].describe(),
                why,
                files: files.to_owned(),
            });
        }
        let candidates = if needing.is_empty() { &open } else { &needing };
        match candidates.as_slice() {
            [one] => pairs.push(Pair { declared: asked, found: *one, why: Why::Asked }),
            [] => {
                return Err(PastedError::NothingLeft { key: wish.to_owned(), files: files.to_owned() });
            }
            _ => {}
        }
        needing.retain(|position| is_open(&pairs, *position));
    } else if let ([one], [only]) = (needing.as_slice(), left.as_slice())
        && found[*one].owner.is_none()
    {
        pairs.push(Pair { declared: *only, found: *one, why: Why::OnlyOne });
        needing.clear();
    }
    if needing.is_empty() {
        return Ok(pairs);
    }
    // If nothing is left, nothing can be said with --container: the names of all help to see what was mixed up.
    let left = if left.is_empty() { (0..declared.len()).collect() } else { left };
    let several = |key: &str| declared.iter().filter(|one| one.key == key).count() > 1;
    let word = |one: &Declared| {
        if several(&one.key) { format!("{}/{}", one.module, one.key) } else { one.key.clone() }
    };
    Err(PastedError::Unmatched {
        files: files.to_owned(),
        found: describe(&needing),
        declared: left.iter().map(|position| word(&declared[*position])).collect(),
    })
}

/// Pairs what is open on both sides.
fn add(pairs: &mut Vec<Pair>, found: &[Found], why: Why, counterpart: impl Fn(&Found) -> Option<usize>) {
    for (position, container) in found.iter().enumerate() {
        if let Some(declared) = counterpart(container)
            && !pairs.iter().any(|pair| pair.declared == declared || pair.found == position)
        {
            pairs.push(Pair { declared, found: position, why });
        }
    }
}

fn explained(container: &Found, declared: &[Declared]) -> bool {
    let of_a_module =
        container.owner.as_ref().is_some_and(|(module, _)| declared.iter().any(|one| one.module == *module));
    of_a_module || container.is_referred_to || declared.iter().any(|one| one.name == container.name)
}

/// `KEY`, or `MODULE/KEY`.
fn find(declared: &[Declared], wish: &str) -> Result<usize, PastedError> {
    let is_meant = |one: &Declared| one.key == wish || format!("{}/{}", one.module, one.key) == wish;
    let meant: Vec<usize> = (0..declared.len()).filter(|position| is_meant(&declared[*position])).collect();
    match meant.as_slice() {
        [one] => Ok(*one),
        [] => Err(PastedError::NoSuchKey {
            key: wish.to_owned(),
            declared: declared.iter().map(|one| one.key.clone()).collect(),
        }),
        _ => Err(PastedError::WhichModule { key: wish.to_owned() }),
    }
}

impl Found {
    fn describe(&self) -> String {
        let id = self.id.get(..12).unwrap_or(&self.id);
        match &self.owner {
            Some((module, key)) => {
                format!("the container {} ({id}, container {key} of module {module})", self.name)
            }
            None => format!("the container {} ({id})", self.name),
        }
    }
}
