//! The serialized form of values in messages and documents: integers, so that they are read back
//! exactly.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Freeze, HostInstant, Nanos, Rate, Scale, VirtualInstant};

/// Serializes a type as another one.
macro_rules! written_as {
    ($name:ty, $form:ty, $to:expr, $from:expr) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let to: fn(&Self) -> $form = $to;
                to(self).serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let from: fn($form) -> Self = $from;
                <$form>::deserialize(deserializer).map(from)
            }
        }
    };
}

written_as!(Nanos, i64, |nanos| nanos.0, Nanos);
written_as!(HostInstant, i64, |host| host.as_nanos(), HostInstant::from_nanos);
written_as!(VirtualInstant, i64, |virt| virt.as_nanos(), VirtualInstant::from_nanos);
// The whole part, and the fraction in units of 2^-64.
written_as!(Rate, [u64; 2], |rate| [rate.forward().whole, rate.forward().frac], |[whole, frac]| {
    Rate::from_forward(Scale { whole, frac })
});
// Whether only the wall clock is frozen.
written_as!(Freeze, bool, |freeze| *freeze == Freeze::Wall, |wall| match wall {
    true => Freeze::Wall,
    false => Freeze::All,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        fn there_and_back<T: Serialize + for<'de> Deserialize<'de> + PartialEq>(value: T) -> bool {
            let text = serde_json::to_string(&value).unwrap();
            serde_json::from_str::<T>(&text).unwrap() == value
        }
        assert!([1, -1, i64::MAX, i64::MIN].map(Nanos).into_iter().all(there_and_back));
        assert!(there_and_back(HostInstant::from_nanos(7)));
        assert!(there_and_back(VirtualInstant::from_nanos(-7)));
        assert!(there_and_back(Rate::from_ratio(1, 3).unwrap()) && there_and_back(Rate::FROZEN));
        assert!(there_and_back(Freeze::All) && there_and_back(Freeze::Wall));
    }
}
