//! temporary
use std::collections::BTreeMap;
use std::time::Instant;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
#[test]
fn dump() {
    let mut runner = TestRunner::default();
    let strategy = proptest::collection::vec(super::round_trip::odd_text(), 1..6);
    let mut all = Vec::new();
    for _ in 0..3000 {
        let texts = strategy.new_tree(&mut runner).unwrap().current();
        let mut spec = super::module("name: shop\ncontainers: {web: {image: nginx}}\n");
        let web = spec.containers.get_mut("web").unwrap();
        web.command = texts.clone();
        web.environment = texts.iter().enumerate().map(|(i, t)| (format!("K{i}"), t.clone())).collect::<BTreeMap<_, _>>();
        web.labels = texts.iter().map(|t| (t.clone(), t.clone())).collect();
        let web = web.clone();
        let text = crate::manifest::emit::emit(&crate::manifest::spell::module(&spec));
        all.push(serde_json::json!({"yaml": text, "command": web.command, "env": web.environment, "labels": web.labels}));
    }
    std::fs::write("/tmp/manifest-dump.json", serde_json::to_vec(&all).unwrap()).unwrap();
}
#[test]
fn slow() {
    let n = 1 << 20;
    let rep = |s: &str| s.repeat(n / s.len() - 1);
    let keys = |f: &dyn Fn(usize) -> String| { let mut t = String::new(); let mut i = 0; while t.len() < n - 2000 { t += &f(i); i += 1; } t };
    let table: Vec<(&str, String)> = vec![
        ("flow list", format!("a: [{}a]", rep("a,"))),
        ("args", format!("name: a\ncontainers: {{{}: {{image: x, command: [{}a]}}}}", "k".repeat(900), "a,".repeat(500_000))),
        ("long explicit key", format!("name: a\ncontainers:\n  ? {}\n  : {{image: x, command: [{}a]}}", "k".repeat(300_000), "a,".repeat(300_000))),
        ("unknown keys", keys(&|i| format!("k{i}: 1\n"))),
        ("unknown long keys", keys(&|i| format!("k{i}{}: 1\n", "x".repeat(900)))),
        ("containers", "containers:\n".to_owned() + &keys(&|i| format!(" c{i}: {{depends_on: [zz]}}\n"))),
        ("chain", "name: a\ncontainers:\n".to_owned() + &keys(&|i| format!(" c{i}: {{image: x, depends_on: [c{}]}}\n", i + 1))),
        ("duplicates", keys(&|_| "a: 1\n".to_owned())),
        ("anchors", keys(&|i| format!("k{i}: &a{i} x\n"))),
        ("quotes", format!("a: \"{}\"", "x".repeat(n - 10))),
        ("colons", rep(": ")),
        ("question", rep("? ")),
        ("hyphens", rep("- a\n")),
        ("braces", rep("{a: ")),
        ("stars", rep("*a ")),
        ("tags", rep("!a ")),
        ("percent", rep("%a b\n")),
        ("pipe", "a: |\n".to_owned() + &rep(" x\n")),
        ("documents", rep("---\n")),
        ("env", "name: a\ncontainers:\n web:\n  image: x\n  environment:\n".to_owned() + &keys(&|i| format!("   K{i}: v\n"))),
        ("env list", "name: a\ncontainers:\n web:\n  image: x\n  environment:\n".to_owned() + &keys(&|i| format!("   - K{i}=v\n"))),
        ("mounts", "name: a\ncontainers:\n web:\n  image: x\n  mounts:\n".to_owned() + &keys(&|i| format!("   - /a:/b{i}\n"))),
        ("deep path mounts", format!("name: a\ncontainers:\n web:\n  image: x\n  mounts:\n   - /a:{}", "/b".repeat(400_000))),
        ("ports ranges", "name: a\ncontainers:\n web:\n  image: x\n  ports:\n".to_owned() + &keys(&|_| "   - 1-65535\n".to_owned())),
        ("comments", rep("#\n")),
        ("newlines", rep("\n")),
        ("spaces", rep(" ")),
        ("alias of long", format!("a: &a {}\nb: [{}]", "x".repeat(500_000), vec!["*a"; 9_000].join(","))),
    ];
    for (name, text) in table {
        let start = Instant::now();
        let result = super::read(&super::Source { name: "m", text: text.as_bytes() });
        let what = match result { Ok(_) => "ok".to_owned(), Err(e) => e.to_string().chars().take(120).collect::<String>().replace('\n', " / ") };
        println!("{name:20} {:>8.2?} {} {what}", start.elapsed(), text.len());
    }
    println!("{}", std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
