//! How long nobody answers while a container is recreated: from the last good answer of the old one to the first good answer
//! of the new one, on a fixed port of the loopback interface.
//!
//! Measured side by side: `plumb up --recreate`, `docker compose up --detach` recreating the same service, and `docker stop`
//! with `docker start`, which recreates nothing, but waits for a second process between the two. All three have the same
//! image, command, port and network mode, and a process that ends at once. Rounds are interleaved, and the order in a round
//! turns, so that a busy machine is busy for all of them.
//!
//! `scripts/downtime`, or `cargo bench --package plumbline-controller --bench downtime -- --rounds 20`. Machines differ: read
//! the ratios, not the seconds.

#[path = "downtime/probe.rs"]
mod probe;
#[path = "downtime/ways.rs"]
mod ways;

use std::time::Duration;

use clap::Parser as _;

use crate::probe::Probe;
use crate::ways::Way;

/// How the bench is called.
#[derive(Debug, clap::Parser)]
struct Options {
    /// How often each way is measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    if !options.bench {
        // `cargo test --benches` runs it, too, and has no use for it.
        println!("nothing was measured: run it with `cargo bench`");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for manifests and what plumb keeps");
    let mut ways = vec![Way::bare(), Way::plumb(folder.path())];
    match Way::compose(folder.path()) {
        Some(compose) => ways.push(compose),
        None => println!(
            "NOT measured: Docker Compose, because there is none. Install it, name the program in PLUMBLINE_COMPOSE, or run \
             scripts/downtime, which unpacks Debian's"
        ),
    }
    for way in &ways {
        way.change(0);
        println!("{}: {}", way.name, way.what);
    }

    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); ways.len()];
    for round in 1..=options.rounds {
        for turn in 0..ways.len() {
            let index = (turn + round as usize) % ways.len();
            let way = &ways[index];
            let probe = Probe::start(way.port, &way.answer(round - 1));
            way.change(round);
            times[index].push(probe.end(&way.answer(round)));
        }
        let last = ways.iter().zip(&times).filter_map(|(way, times)| Some((way.name, *times.last()?)));
        let last: Vec<String> = last.map(|(name, time)| format!("{name} {}", milliseconds(time))).collect();
        println!("round {round}: {}", last.join(", "));
    }
    let names: Vec<&str> = ways.iter().map(|way| way.name).collect();
    print_table(&names, times);
}

/// Medians, and each as a ratio to the others.
fn print_table(names: &[&str], times: Vec<Vec<Duration>>) {
    let sorted: Vec<Vec<Duration>> = times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable();
            times
        })
        .collect();
    let (bare, compose) = (median(&sorted[0]), sorted.get(2).map(|times| median(times)));
    println!("\n| downtime of | median | least | most | to stop + start | to compose |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (name, times) in names.iter().zip(&sorted) {
        let middle = median(times);
        let to_compose = compose.map_or("not measured".to_owned(), |compose| ratio(middle, compose));
        println!(
            "| `{name}` | {} | {} | {} | {} | {to_compose} |",
            milliseconds(middle),
            milliseconds(times[0]),
            milliseconds(times[times.len() - 1]),
            ratio(middle, bare),
        );
    }
}

/// Of times in order.
fn median(times: &[Duration]) -> Duration {
    let middle = times.len() / 2;
    if times.len().is_multiple_of(2) { (times[middle - 1] + times[middle]) / 2 } else { times[middle] }
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

fn ratio(time: Duration, base: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() / base.as_secs_f64())
}
