//! Which pasted container stands for which declared one.

use super::PastedError;
use super::wish::Wish;

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
    /// Project and service in the labels of Docker Compose.
    pub(super) service: Option<(String, String)>,
    /// Others refer to it: it may be there only so that its name is known.
    pub(super) is_referred_to: bool,
}

/// Why two belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Labels,
    Name,
    Service,
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

/// What is declared and what was pasted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'a> {
    /// The modules that are planned; one may declare no container.
    pub(super) modules: &'a [&'a str],
    pub(super) declared: &'a [Declared],
    pub(super) found: &'a [Found],
    /// The names of the files.
    pub(super) files: &'a str,
}

/// Pairs by labels, then by a wish that names both (`--container KEY=NAME`), by name, by the service of Docker Compose; then
/// by a wish that names the key, or what is left if that is one of each. A container that is left over is an error, unless
/// there is another reason for its being there: its labels name a module that is planned (it left the declaration), it has
/// the name of a declared container (which is taken then), or others refer to it.
pub(super) fn pair(sides: Sides<'_>, wishes: &[String]) -> Result<Vec<Pair>, PastedError> {
    let Sides { declared, found, .. } = sides;
    let wishes = Wish::read_all(sides, wishes)?;
    let mut pairs: Vec<Pair> = Vec::new();
    let owned = |container: &Found| {
        let (module, key) = container.owner.as_ref()?;
        declared.iter().position(|one| one.module == *module && one.key == *key)
    };
    add(&mut pairs, found, Why::Labels, owned);
    for wish in &wishes {
        let Some(position) = wish.found else { continue };
        if pairs.iter().any(|pair| pair.declared == wish.declared && pair.found == position) {
            continue;
        }
        sides.check_free(&pairs, wish)?;
        pairs.push(Pair { declared: wish.declared, found: position, why: Why::Asked });
    }
    let named = |container: &Found| {
        let position = declared.iter().position(|one| one.name == container.name)?;
        container.owner.is_none().then_some(position)
    };
    add(&mut pairs, found, Why::Name, named);
    let is_wished = |position: &usize| wishes.iter().any(|wish| wish.declared == *position);
    let of_compose = |container: &Found| sides.service_of(container).filter(|position| !is_wished(position));
    // Of two replicas nobody can say which is meant.
    let alike = |position: usize| found.iter().filter(|one| of_compose(one) == Some(position)).count();
    add(&mut pairs, found, Why::Service, |container| {
        of_compose(container).filter(|position| alike(*position) == 1)
    });
    for wish in wishes.iter().filter(|wish| wish.found.is_none()) {
        sides.check_free(&pairs, wish)?;
        let (open, needing) = (sides.open(&pairs), sides.needing(&pairs));
        let candidates = if needing.is_empty() { &open } else { &needing };
        let position = match candidates.as_slice() {
            [one] => *one,
            [] => {
                let key = wish.key.clone();
                return Err(PastedError::NothingLeft { key, files: sides.files.to_owned() });
            }
            several => {
                return Err(PastedError::WhichContainer {
                    key: wish.key.clone(),
                    files: sides.files.to_owned(),
                    found: several.iter().map(|position| found[*position].describe()).collect(),
                });
            }
        };
        pairs.push(Pair { declared: wish.declared, found: position, why: Why::Asked });
    }
    let left: Vec<usize> =
        (0..declared.len()).filter(|one| !pairs.iter().any(|pair| pair.declared == *one)).collect();
    let needing = sides.needing(&pairs);
    match (needing.as_slice(), left.as_slice()) {
        ([], _) => Ok(pairs),
        ([one], [only]) if found[*one].owner.is_none() => {
            pairs.push(Pair { declared: *only, found: *one, why: Why::OnlyOne });
            Ok(pairs)
        }
        _ => Err(sides.unmatched(&needing, left)),
    }
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

impl Sides<'_> {
    fn open(self, pairs: &[Pair]) -> Vec<usize> {
        let is_open = |position: &usize| !pairs.iter().any(|pair| pair.found == *position);
        (0..self.found.len()).filter(is_open).collect()
    }

    /// What is open and must not stay so.
    fn needing(self, pairs: &[Pair]) -> Vec<usize> {
        let is_explained = |container: &Found| {
            let of_a_module =
                container.owner.as_ref().is_some_and(|(module, _)| self.modules.contains(&module.as_str()));
            let has_a_name = self.declared.iter().any(|one| one.name == container.name);
            of_a_module || container.is_referred_to || has_a_name
        };
        self.open(pairs).into_iter().filter(|position| !is_explained(&self.found[*position])).collect()
    }

    /// The declared container that has the key of this one's service. A project has the name of a module, if keys alone do
    /// not tell.
    fn service_of(self, container: &Found) -> Option<usize> {
        let (project, service) = container.service.as_ref().filter(|_| container.owner.is_none())?;
        let has_key = |position: &usize| self.declared[*position].key == *service;
        let meant: Vec<usize> = (0..self.declared.len()).filter(has_key).collect();
        match meant.as_slice() {
            [one] => Some(*one),
            several => several.iter().copied().find(|position| self.declared[*position].module == *project),
        }
    }

    /// A wish does not override labels, which an agent goes by, nor take what has its counterpart.
    fn check_free(self, pairs: &[Pair], wish: &Wish) -> Result<(), PastedError> {
        if let Some(container) = wish.found.map(|position| &self.found[position])
            && let Some((module, _)) = &container.owner
            && self.modules.contains(&module.as_str())
        {
            return Err(PastedError::OtherLabels { key: wish.key.clone(), found: container.describe() });
        }
        let Some(pair) = pairs.iter().find(|pair| pair.declared == wish.declared) else { return Ok(()) };
        Err(PastedError::Taken {
            key: wish.key.clone(),
            found: self.found[pair.found].describe(),
            why: match pair.why {
                Why::Labels => "by its labels",
                Why::Name => "by its name",
                Why::Service => "by the labels of Docker Compose",
                Why::Asked | Why::OnlyOne => "as was asked for",
            },
            files: self.files.to_owned(),
        })
    }

    fn unmatched(self, needing: &[usize], left: Vec<usize>) -> PastedError {
        // If nothing is left, nothing can be said with --container: the names of all help to see what was mixed up.
        let left = if left.is_empty() { (0..self.declared.len()).collect() } else { left };
        let several = |key: &str| self.declared.iter().filter(|one| one.key == key).count() > 1;
        let word = |one: &Declared| {
            if several(&one.key) { format!("{}/{}", one.module, one.key) } else { one.key.clone() }
        };
        let found = needing.iter().map(|position| self.found[*position].describe()).collect();
        let declared: Vec<String> = left.iter().map(|position| word(&self.declared[*position])).collect();
        let files = self.files.to_owned();
        if declared.is_empty() {
            PastedError::NothingDeclared { files, found }
        } else {
            PastedError::Unmatched { files, found, declared }
        }
    }
}

impl Found {
    pub(super) fn describe(&self) -> String {
        let id = self.id.get(..12).unwrap_or(&self.id);
        match &self.owner {
            Some((module, key)) => {
                format!("the container {} ({id}, container {key} of module {module})", self.name)
            }
            None => format!("the container {} ({id})", self.name),
        }
    }
}
