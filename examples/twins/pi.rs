//! The job pi in Rust, with all that a job needs and nothing else: what it computes
//! is in `inside`, the rest is the same in every job.
//!
//! As a module: `rustup target add wasm32-wasip1`, then
//! `rustc -O --target wasm32-wasip1 -o pi.wasm pi.rs`. As a program that a host allows
//! in `[exec.programs]`: `rustc -O -o pi pi.rs`.

/// Reads a variable of the chunk. Only SKEIN_SEED may be missing.
fn number(name: &str, missing: Option<u64>) -> u64 {
    match (std::env::var(name), missing) {
        (Err(_), Some(n)) => n,
        (text, _) => text.ok().and_then(|t| t.parse().ok()).unwrap_or_else(|| {
            eprintln!("{name} is not a number");
            std::process::exit(1) // the attempt fails, and this is its reason
        }),
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d049bb133111eb);
    z ^ z >> 31
}

const GOLDEN: u64 = 0x9e3779b97f4a7c15;

/// Counts the points of the iterations from offset on that fall inside the circle.
/// The random bits depend on the seed and the iteration's index only: so every host
/// gets the same, and no two chunks the same numbers.
fn inside(seed: u64, offset: u64, iterations: u64) -> u64 {
    let key = mix(mix(seed.wrapping_add(GOLDEN)) ^ mix(1));
    let mut hits = 0;
    for i in offset..offset + iterations {
        let z = mix(key.wrapping_add(i.wrapping_mul(GOLDEN)));
        let (x, y) = (z >> 33 | 1, z & 0x7fff_ffff | 1);
        hits += u64::from(x * x + y * y < 1 << 62);
    }
    hits
}

fn main() {
    let (n, offset) = (number("SKEIN_ITERATIONS", None), number("SKEIN_SEED_OFFSET", None));
    if n == 0 {
        eprintln!("SKEIN_ITERATIONS is 0");
        std::process::exit(1)
    }
    let hits = inside(number("SKEIN_SEED", Some(0)), offset, n) as f64;
    let all = n as f64;
    let (min, max) = (if hits == all { 4 } else { 0 }, if hits == 0.0 { 0 } else { 4 });
    // The shortest text of a number that is read as the same one.
    println!(
        r#"{{"iterations": {n}, "metrics": {{"pi": {{"n": {n}, "mean": {:?}, "m2": {:?}, "min": {min}, "max": {max}}}}}}}"#,
        4.0 * hits / all,
        16.0 * hits / all * (all - hits),
    );
}
