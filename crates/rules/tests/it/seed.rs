//! The seed of property tests: the same in each run, so that failures can be reproduced.
//!
//! `PROPTEST_RNG_SEED=7 cargo test -p trueup-rules` tries other cases. A failing test prints its
//! seed.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The seed if none is configured.
const SEED: u64 = 1;

/// A configuration with so many cases and a fixed seed.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let configured = ProptestConfig::default();
    let rng_seed = match configured.rng_seed {
        RngSeed::Random => RngSeed::Fixed(SEED),
        given @ RngSeed::Fixed(_) => given,
    };
    // Shown if the test fails.
    println!("PROPTEST_RNG_SEED={rng_seed}");
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..configured }
}
