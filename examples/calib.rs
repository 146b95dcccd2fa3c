use kwalk::machine::*;
fn main() {
    let c = |level, sets, ways, shared| Cache {
        level,
        sets,
        ways,
        line_bytes: 64,
        slices: 1,
        slice_hash: vec![],
        replacement: Replacement::Lru,
        inclusion: Inclusion::NonInclusive,
        latency_cycles: 0.0,
        outstanding_misses: 16,
        shared_by_cores: shared,
        source: "".into(),
        confidence: Confidence::Told,
    };
    let caches = [c(1, 64, 12, 1), c(2, 1024, 16, 1), c(3, 32768, 16, 2)];
    for quick in [true, false] {
        let t = std::time::Instant::now();
        let r = kwalk::calibrate::calibrate(1, &caches, quick);
        println!("{:?}\n{r:#?}", t.elapsed());
    }
    println!("{:#?}", kwalk::native::clock::Clock::measure());
}
