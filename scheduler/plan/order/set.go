package order

// Set is a set of small numbers.
type Set []uint64

// Has reports whether i is in the set.
func (s Set) Has(i int32) bool { return int(i/64) < len(s) && s[i/64]&(1<<(i%64)) != 0 }

// Put lets i be in the set, or not.
func (s *Set) Put(i int32, on bool) {
	for int(i/64) >= len(*s) {
		*s = append(*s, 0)
	}
	if on {
		(*s)[i/64] |= 1 << (i % 64)
	} else {
		(*s)[i/64] &^= 1 << (i % 64)
	}
}
