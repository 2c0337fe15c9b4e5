use super::*;

const A: FileIdentity = FileIdentity { device: 1, inode: 1 };
const B: FileIdentity = FileIdentity { device: 1, inode: 2 };
/// The inode of `A`, on another file system.
const A_ELSEWHERE: FileIdentity = FileIdentity { device: 2, inode: 1 };

fn found(file: FileIdentity, holds: Holds) -> Place {
    Place::Found { file, holds }
}

fn unseen(exists: bool) -> Place {
    Place::Unseen { why: "it is hidden".to_owned(), exists }
}

fn mounted(place: Place) -> Before {
    Before::Mounted { source: "/old".to_owned(), place, path_gone: false, stale: false }
}

fn path_gone(place: Place) -> Before {
    Before::Mounted { source: "/old".to_owned(), place, path_gone: true, stale: false }
}

fn at(source: &str, place: Place) -> After {
    After::Mounted { source: source.to_owned(), place }
}

fn judged(before: Before, after: After) -> Option<MountVerdict> {
    judge("web", &Mounting { target: "/data".to_owned(), before, after })
}

#[test]
fn each_pair_of_before_and_after_has_its_verdict() {
    use Holds::{Data, Endpoint, Nothing, Unreadable};
    let table = [
        // There was no data before.
        (Before::NoContainer, found(A, Data), Verdict::FirstUse),
        (Before::NoContainer, found(A, Nothing), Verdict::FirstUse),
        (Before::NoContainer, Place::New, Verdict::FirstUse),
        (Before::NoContainer, Place::Missing, Verdict::Missing),
        (Before::NoContainer, unseen(false), Verdict::Unknown),
        (Before::NoContainer, unseen(true), Verdict::FirstUse),
        (Before::Bare, found(A, Data), Verdict::FirstUse),
        (Before::Bare, Place::New, Verdict::FirstUse),
        (Before::Bare, Place::Missing, Verdict::Missing),
        // The container wrote there what the mount would cover.
        (Before::OwnData, found(A, Data), Verdict::Different),
        (Before::OwnData, found(A, Nothing), Verdict::Empty),
        (Before::OwnData, Place::New, Verdict::Empty),
        (Before::OwnData, Place::Missing, Verdict::Missing),
        (Before::OwnData, unseen(true), Verdict::Unknown),
        // Mounted before.
        (mounted(found(A, Data)), found(A, Data), Verdict::Same),
        (mounted(found(A, Nothing)), found(A, Nothing), Verdict::Same),
        (mounted(found(A, Unreadable)), found(A, Unreadable), Verdict::Same),
        (path_gone(found(A, Data)), found(A, Data), Verdict::Moved),
        (mounted(found(A, Data)), found(B, Data), Verdict::Different),
        (mounted(found(A, Data)), found(A_ELSEWHERE, Data), Verdict::Different),
        (mounted(found(A, Nothing)), found(B, Data), Verdict::Different),
        (mounted(found(A, Data)), found(B, Nothing), Verdict::Empty),
        (mounted(found(A, Nothing)), found(B, Nothing), Verdict::Empty),
        (mounted(found(A, Data)), Place::New, Verdict::Empty),
        (mounted(unseen(true)), Place::New, Verdict::Empty),
        (mounted(found(A, Data)), Place::Missing, Verdict::Missing),
        (mounted(unseen(false)), Place::Missing, Verdict::Missing),
        (mounted(unseen(false)), found(A, Data), Verdict::Unknown),
        (mounted(found(A, Data)), unseen(true), Verdict::Unknown),
        (mounted(found(A, Data)), found(B, Unreadable), Verdict::Unknown),
        // It does not run, and its path leads nowhere.
        (path_gone(Place::Missing), found(A, Data), Verdict::Unknown),
        (path_gone(Place::Missing), found(A, Nothing), Verdict::Empty),
        (path_gone(Place::Missing), Place::Missing, Verdict::Missing),
        // Whoever serves a socket makes it anew.
        (mounted(found(A, Endpoint)), found(B, Endpoint), Verdict::Same),
        (mounted(found(A, Data)), found(B, Endpoint), Verdict::Different),
    ];
    for (before, place, verdict) in table {
        let shown = format!("{before:?} {place:?}");
        let judged = judged(before, at("/new", place)).expect("every declared mount has a verdict");
        assert_eq!(judged.verdict(), verdict, "{shown}");
        assert_eq!(judged.refused, needs_acceptance(verdict), "{shown}");
        // What is not there cannot be mounted, whatever is accepted.
        let is_acceptable =
            judged.refused && !(verdict == Verdict::Missing && judged.source_before.is_empty());
        assert_eq!(judged.detail.contains("--accept-data"), is_acceptable, "{shown}: {}", judged.detail);
        assert_eq!(judged.detail.contains("mkdir -p"), judged.refused && !is_acceptable, "{}", judged.detail);
    }
}

#[test]
fn the_same_directory_under_its_old_path_has_not_moved() {
    let mounting = |source| judged(path_gone(found(A, Holds::Data)), at(source, found(A, Holds::Data)));
    assert_eq!(mounting("/old").expect("a verdict").verdict(), Verdict::Same);
    assert_eq!(mounting("/new").expect("a verdict").verdict(), Verdict::Moved);
}

#[test]
fn one_volume_is_the_same_whether_it_can_be_seen_or_not() {
    let same = judged(mounted(unseen(true)), After::SameVolume).expect("a verdict");
    assert_eq!((same.verdict(), same.source_after.as_str()), (Verdict::Same, "/old"));
}

#[test]
fn a_mount_that_goes_is_named_if_it_had_something_in_it() {
    let gone = |place| judged(mounted(place), After::NotMounted { elsewhere: None });
    assert_eq!(gone(found(A, Holds::Nothing)), None);
    assert_eq!(gone(Place::Missing), None);
    for place in [found(A, Holds::Data), found(A, Holds::Unreadable), unseen(false)] {
        let removed = gone(place).expect("it is named");
        assert_eq!(removed.verdict(), Verdict::Removed);
        assert!(removed.refused && removed.detail.contains("/old"), "{}", removed.detail);
    }
    let elsewhere = After::NotMounted { elsewhere: Some("/other".to_owned()) };
    let moved = judged(mounted(found(A, Holds::Data)), elsewhere).expect("it is named");
    assert_eq!(moved.verdict(), Verdict::Moved);
}

#[test]
fn what_is_accepted_must_be_what_is_found() {
    use Verdict::{Empty, Missing, Same};
    let accepted = |found: Verdict, accepted: &[(&str, &str, Verdict)]| {
        let refused = needs_acceptance(found);
        let (container, target) = ("web".to_owned(), "/data".to_owned());
        let mut mounts = vec![MountVerdict {
            container,
            target,
            verdict: found.into(),
            refused,
            ..MountVerdict::default()
        }];
        let acceptance = |(container, target, verdict): &(&str, &str, Verdict)| DataAcceptance {
            container: (*container).to_owned(),
            target: (*target).to_owned(),
            verdict: (*verdict).into(),
        };
        accept(&mut mounts, &accepted.iter().map(acceptance).collect::<Vec<_>>());
        (mounts[0].accepted, mounts[0].refused)
    };
    for (found, named, expected) in [
        (Empty, &[][..], (false, true)),
        (Empty, &[("web", "/data", Empty)][..], (true, false)),
        (Empty, &[("", "/data", Empty)][..], (true, false)),
        (Empty, &[("web", "/data", Missing)][..], (false, true)),
        (Empty, &[("db", "/data", Empty)][..], (false, true)),
        (Empty, &[("web", "/data/sub", Empty)][..], (false, true)),
        (Empty, &[("", "/data", Empty), ("web", "/data", Missing)][..], (false, true)),
        (Same, &[][..], (false, false)),
        (Same, &[("", "/data", Empty)][..], (false, true)),
        (Same, &[("", "/data", Same)][..], (true, false)),
    ] {
        assert_eq!(accepted(found, named), expected, "{found:?} {named:?}");
    }
}

#[test]
fn what_is_accepted_is_not_asked_for_again() {
    let judged =
        judged(mounted(found(A, Holds::Data)), at("/new", found(B, Holds::Nothing))).expect("a verdict");
    let acceptance = DataAcceptance {
        container: String::new(),
        target: judged.target.clone(),
        verdict: Verdict::Empty.into(),
    };
    let mut mounts = [judged.clone()];
    accept(&mut mounts, &[acceptance]);
    assert!(judged.detail.starts_with(&mounts[0].detail) && judged.detail.contains("--accept-data"));
    assert!(!mounts[0].detail.contains("--accept-data"), "{}", mounts[0].detail);
}

#[test]
fn a_file_that_was_replaced_by_a_rename_is_said_to_be() {
    let (place, source) = (found(A, Holds::Data), "/etc/app.conf");
    let before = Before::Mounted { source: source.to_owned(), place, path_gone: false, stale: true };
    let stale = judged(before, at(source, found(B, Holds::Data))).expect("a verdict");
    assert_eq!(stale.verdict(), Verdict::Different);
    assert!(stale.detail.contains("was replaced or removed since"), "{}", stale.detail);
}

#[test]
fn every_verdict_has_a_word_that_leads_back_to_it() {
    for number in 1..=8 {
        let verdict = Verdict::try_from(number).expect("there are eight");
        assert_eq!(verdict_named(&word(verdict)), Some(verdict));
    }
    for unknown in ["unspecified", "", "gone"] {
        assert_eq!(verdict_named(unknown), None);
    }
}

#[test]
fn what_changes_between_plan_and_start_is_seen() {
    let (data, nothing) = (found(A, Holds::Data), found(A, Holds::Nothing));
    let unchanged = [(&data, &data, false), (&nothing, &nothing, false), (&data, &nothing, true)];
    for (planned, now, is_in_use) in unchanged {
        assert!(!has_changed(planned, now, is_in_use), "{planned:?} {now:?}");
    }
    let other = found(B, Holds::Data);
    let changed = [
        (&data, &other, true),
        (&data, &other, false),
        (&data, &nothing, false),
        (&nothing, &data, false),
        (&data, &Place::Missing, true),
        (&Place::Missing, &nothing, false),
    ];
    for (planned, now, is_in_use) in changed {
        assert!(has_changed(planned, now, is_in_use), "{planned:?} {now:?}");
    }
}
