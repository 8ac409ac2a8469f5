/// All pairs of these processors in rounds in which no processor occurs twice: a round-robin
/// tournament (the circle method). So the pairs of a round can be compared at the same time: 256
/// processors are 32640 pairs, but 255 rounds.
#[must_use]
pub fn rounds(cpus: &[usize]) -> Vec<Vec<[usize; 2]>> {
    // With an odd number, one sits out each round.
    let mut circle: Vec<_> = cpus.iter().copied().map(Some).collect();
    if circle.len() % 2 == 1 {
        circle.push(None);
    }
    let length = circle.len();
    let round = |_| {
        let pairs = (0..length / 2).filter_map(|place| {
            let (one, other) = (circle[place]?, circle[length - 1 - place]?);
            Some([one.min(other), one.max(other)])
        });
        let pairs = pairs.collect();
        circle[1..].rotate_right(1);
        pairs
    };
    // A single processor has a round without pairs.
    (1..length).map(round).filter(|pairs: &Vec<_>| !pairs.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_meets_everybody_once() {
        for count in 0..40_usize {
            let cpus: Vec<_> = (0..count).map(|cpu| cpu * 3).collect();
            let rounds = rounds(&cpus);
            assert!(rounds.len() <= count, "{count} processors");
            for round in &rounds {
                let mut busy: Vec<_> = round.iter().flatten().collect();
                busy.sort();
                busy.dedup();
                assert_eq!(busy.len(), 2 * round.len(), "nobody is in two pairs of {round:?}");
            }
            let mut met: Vec<_> = rounds.into_iter().flatten().collect();
            met.sort();
            met.dedup();
            assert_eq!(met.len(), count * count.saturating_sub(1) / 2);
            assert!(met.iter().all(|[one, other]| one < other));
        }
    }

    #[test]
    fn large_machines_have_as_many_rounds_as_processors() {
        let cpus: Vec<_> = (0..256).collect();
        let rounds = rounds(&cpus);
        assert_eq!((rounds.len(), rounds.concat().len()), (255, 32640));
    }
}
