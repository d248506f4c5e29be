//! Maps: the standard library's, and for a small engine one that is a sorted list, which is a tenth of the code.

#[cfg(not(tidegate_small))]
pub(crate) use std::collections::BTreeMap as Map;

#[cfg(tidegate_small)]
pub(crate) use sorted::Map;

/// A map as a list in the order of its keys: looking up is as quick, putting in moves what comes behind.
#[cfg(any(test, tidegate_small))]
#[cfg_attr(test, allow(dead_code))]
mod sorted {
    use core::borrow::Borrow;

    #[derive(Clone, Debug)]
    pub(crate) struct Map<K, V>(Vec<(K, V)>);

    impl<K, V> Default for Map<K, V> {
        fn default() -> Self {
            Self(Vec::new())
        }
    }

    impl<K, V> IntoIterator for Map<K, V> {
        type Item = (K, V);
        type IntoIter = std::vec::IntoIter<(K, V)>;

        fn into_iter(self) -> Self::IntoIter {
            self.0.into_iter()
        }
    }

    impl<'a, K, V> IntoIterator for &'a Map<K, V> {
        type Item = (&'a K, &'a V);
        type IntoIter = core::iter::Map<core::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> Self::Item>;

        fn into_iter(self) -> Self::IntoIter {
            self.0.iter().map(|(key, value)| (key, value))
        }
    }

    impl<K: Ord, V> Map<K, V> {
        pub const fn new() -> Self {
            Self(Vec::new())
        }

        fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
        where
            K: Borrow<Q>,
        {
            self.0.binary_search_by(|(known, _)| known.borrow().cmp(key))
        }

        pub fn len(&self) -> usize {
            self.0.len()
        }

        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
        where
            K: Borrow<Q>,
        {
            self.find(key).ok().map(|at| &self.0[at].1)
        }

        pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
        where
            K: Borrow<Q>,
        {
            self.find(key).ok().map(|at| &mut self.0[at].1)
        }

        pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
        where
            K: Borrow<Q>,
        {
            self.find(key).is_ok()
        }

        pub fn insert(&mut self, key: K, value: V) -> Option<V> {
            match self.find(&key) {
                Ok(at) => Some(core::mem::replace(&mut self.0[at].1, value)),
                Err(at) => {
                    self.0.insert(at, (key, value));
                    None
                }
            }
        }

        pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
        where
            K: Borrow<Q>,
        {
            self.find(key).ok().map(|at| self.0.remove(at).1)
        }

        pub fn clear(&mut self) {
            self.0.clear();
        }

        pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
            self.0.iter().map(|(key, value)| (key, value))
        }

        pub fn keys(&self) -> impl Iterator<Item = &K> {
            self.0.iter().map(|(key, _)| key)
        }

        pub fn values(&self) -> impl Iterator<Item = &V> {
            self.0.iter().map(|(_, value)| value)
        }

        pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
            self.0.retain_mut(|(key, value)| keep(key, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sorted;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_sorted_list_is_a_map(
            steps in proptest::collection::vec((0u8..4, 0u8..12, any::<u16>()), 0..200),
        ) {
            let (mut known, mut list) = (BTreeMap::new(), sorted::Map::new());
            for (step, key, value) in steps {
                match step {
                    0 | 1 => prop_assert_eq!(known.insert(key, value), list.insert(key, value)),
                    2 => prop_assert_eq!(known.remove(&key), list.remove(&key)),
                    _ => {
                        known.retain(|other, _| *other != key);
                        list.retain(|other, _| *other != key);
                    }
                }
                prop_assert_eq!(known.get(&key), list.get(&key));
                prop_assert_eq!(known.get_mut(&key), list.get_mut(&key));
                prop_assert_eq!(known.contains_key(&key), list.contains_key(&key));
                prop_assert_eq!((known.len(), known.is_empty()), (list.len(), list.is_empty()));
                prop_assert!(known.iter().eq(list.iter()));
                prop_assert!(known.keys().eq(list.keys()) && known.values().eq(list.values()));
            }
            list.clear();
            prop_assert!(list.is_empty());
        }
    }
}
