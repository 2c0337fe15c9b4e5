use super::pair::{Declared, Found, Sides, Why, pair};

/// `module/key=name`.
fn declared(text: &str) -> Declared {
    let (owner, name) = text.split_once('=').expect("a name");
    let (module, key) = owner.split_once('/').expect("a key");
    Declared { module: module.to_owned(), key: key.to_owned(), name: name.to_owned() }
}

/// `name`, `name=module/key` with labels, `name@project/service` of Docker Compose, `*name` if others refer to it.
fn found(text: &str) -> Found {
    let split =
        |text: &str| text.split_once('/').map(|(first, second)| (first.to_owned(), second.to_owned()));
    let (text, service) = text.split_once('@').map_or((text, None), |(text, service)| (text, split(service)));
    let (name, owner) = text.split_once('=').map_or((text, None), |(name, owner)| (name, split(owner)));
    Found {
        id: name.to_owned(),
        name: name.trim_start_matches('*').to_owned(),
        owner,
        service,
        is_referred_to: name.starts_with('*'),
    }
}

/// What is pasted, the wishes, and the pairs or a part of the error. Declared are m/a (m-a), m/b (m-b), and n/a (n-a).
#[test]
fn containers_are_paired_by_labels_then_by_name_or_service_then_by_wish_or_as_the_last_of_each() {
    use Why::{Asked, Labels, Name, OnlyOne, Service};
    let three = ["m/a=m-a", "m/b=m-b", "n/a=n-a"].map(declared);
    for (pasted, wishes, expected) in [
        (&["m-a"][..], &[][..], Ok(&[(0, 0, Name)][..])),
        (&["old=m/b", "m-a"], &[], Ok(&[(1, 0, Labels), (0, 1, Name)])),
        // Labels are stronger than a name, and who only has the name is seen as its holder.
        (&["m-a", "old=m/a"], &[], Ok(&[(0, 1, Labels)])),
        // One that left the declaration, and a second one of the same labels, are the plan's to judge.
        (&["m-x=m/x"], &[], Ok(&[])),
        (&["m-a=m/a", "m-a-old=m/a"], &[], Ok(&[(0, 0, Labels)])),
        (&["m-a", "*vpn"], &[], Ok(&[(0, 0, Name)])),
        (&["m-a", "m-b", "web"], &[], Ok(&[(0, 0, Name), (1, 1, Name), (2, 2, OnlyOne)])),
        (&["web"], &["b"], Ok(&[(1, 0, Asked)])),
        (&["web"], &["n/a"], Ok(&[(2, 0, Asked)])),
        (&["m-a", "web"], &["b"], Ok(&[(0, 0, Name), (1, 1, Asked)])),
        // Each by its name; and a name is weaker than what is asked for.
        (&["x", "y"], &["b=y", "n/a=x"], Ok(&[(1, 1, Asked), (2, 0, Asked)])),
        (&["m-a", "y"], &["b=m-a", "m/a=y"], Ok(&[(1, 0, Asked), (0, 1, Asked)])),
        (&["m-a", "x", "y"], &["b=x", "n/a"], Ok(&[(1, 1, Asked), (0, 0, Name), (2, 2, Asked)])),
        // What the labels say already may be said again, and not otherwise.
        (&["old=m/b"], &["b"], Ok(&[(1, 0, Labels)])),
        (&["old=m/b", "m-a"], &["b=old"], Ok(&[(1, 0, Labels), (0, 1, Name)])),
        (
            &["m-a=m/a"],
            &["b"],
            Err("--container b: the container m-a (m-a, container a of module m) is known by"),
        ),
        (&["m-x=m/x", "m-a"], &["b=m-x"], Err("is known by its labels")),
        (&["web=z/q"], &["b"], Ok(&[(1, 0, Asked)])),
        // Docker Compose's service is a key, unless several have it; of replicas none is meant.
        (&["p-b-1@p/b", "m-a"], &[], Ok(&[(0, 1, Name), (1, 0, Service)])),
        (&["m-a-1@m/a", "n-a-1@n/a"], &[], Ok(&[(0, 0, Service), (2, 1, Service)])),
        (&["p-a-1@p/a"], &[], Err("the container p-a-1 (p-a-1), which the manifest")),
        (&["p-b-1@p/b", "p-b-2@p/b"], &[], Err("p-b-1 (p-b-1) and the container p-b-2")),
        (&["p-b-1@p/b", "x"], &["b=x", "n/a=p-b-1"], Ok(&[(1, 1, Asked), (2, 0, Asked)])),
        (&["web"], &[], Err("the container web (web), which the manifest")),
        (&["web"], &[], Err("one of m/a, b, n/a")),
        (
            &["m-a", "x", "y"],
            &["b"],
            Err("the container x (x) and the container y (y): say which, as --container b="),
        ),
        (&["m-a", "m-b", "web=z/q"], &[], Err("container q of module z")),
        (&["web"], &["a"], Err("several modules")),
        (&["web"], &["c"], Err("declares no container c (it declares a, b, a)")),
        (&["web"], &["b=log"], Err("there is no container log in it (there is web)")),
        (
            &["web", "log"],
            &["b=web", "b=log"],
            Err("--container b=log: that key or that container stands in another"),
        ),
        (&["web", "log"], &["b=web", "n/a=web"], Err("--container n/a=web: that key")),
        (&["m-a", "m-b"], &["n/a"], Err("has its counterpart already")),
        (&["m-b", "web"], &["b"], Err("compared with the container m-b (m-b) already, by its name")),
        (&["old=m/b", "web"], &["b=web"], Err("already, by its labels")),
    ] {
        let pasted_list: Vec<Found> = pasted.iter().map(|text| found(text)).collect();
        let sides = Sides { modules: &["m", "n"], declared: &three, found: &pasted_list, files: "i.json" };
        let texts: Vec<String> = wishes.iter().map(|wish| (*wish).to_owned()).collect();
        let answer = pair(sides, &texts);
        match (answer, expected) {
            (Ok(pairs), Ok(expected)) => {
                let pairs: Vec<_> = pairs.iter().map(|pair| (pair.declared, pair.found, pair.why)).collect();
                assert_eq!(pairs, expected, "{pasted:?} {wishes:?}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{pasted:?} {wishes:?}: {error}");
            }
            (answer, _) => panic!("{pasted:?} {wishes:?}: {answer:?}"),
        }
    }
}
