package order

import "math/bits"

// Buckets per octave of a key, and how many there are in all.
const (
	stepBits = 3
	buckets  = 64 << stepBits
)

// BucketOf puts keys that differ by less than an eighth of an octave together.
func BucketOf(key uint64) int {
	if key < 1<<stepBits {
		return int(key)
	}
	octave := bits.Len64(key) - 1
	step := int(key>>(octave-stepBits)) & (1<<stepBits - 1)
	return (octave-stepBits+1)<<stepBits + step
}

// Queue holds small numbers by a key that is rounded to its bucket. Setting,
// removing and finding the lowest take constant time and, once it has grown,
// no memory: each bucket is a ring through link, and a bitmap tells which
// buckets hold anything. Equal ones come in the order in which they were set.
type Queue struct {
	used  [buckets / 64]uint64
	first [buckets]int32 // 1 more than the number; 0: empty
	link  []link
	size  int
}

// link is the place of one number; at is 1 more than its bucket, 0: it is not
// in the queue.
type link struct {
	next, prev int32
	at         int16
}

// Len returns how many numbers the queue holds.
func (q *Queue) Len() int { return q.size }

// Bucket returns the bucket in which i is, or -1.
func (q *Queue) Bucket(i int32) int {
	if !q.Has(i) {
		return -1
	}
	return int(q.link[i].at) - 1
}

// Has reports whether i is in the queue.
func (q *Queue) Has(i int32) bool { return int(i) < len(q.link) && q.link[i].at > 0 }

// Set puts i where key belongs. It keeps its place in a bucket that it is in.
func (q *Queue) Set(i int32, key uint64) {
	for int(i) >= len(q.link) {
		q.link = append(q.link, link{})
	}
	b := BucketOf(key)
	if l := &q.link[i]; l.at > 0 {
		if int(l.at) == b+1 {
			return
		}
		q.Remove(i)
	}
	q.size++
	l := &q.link[i]
	l.at = int16(b + 1)
	if q.first[b] == 0 {
		q.first[b] = i + 1
		l.next, l.prev = i, i
		q.used[b/64] |= 1 << (b % 64)
		return
	}
	head := q.first[b] - 1
	tail := q.link[head].prev
	l.next, l.prev = head, tail
	q.link[tail].next, q.link[head].prev = i, i
}

// Remove takes i out, if it is in.
func (q *Queue) Remove(i int32) {
	if !q.Has(i) {
		return
	}
	l := q.link[i]
	b := int(l.at) - 1
	q.size--
	q.link[i].at = 0
	if l.next == i {
		q.first[b] = 0
		q.used[b/64] &^= 1 << (b % 64)
		return
	}
	q.link[l.prev].next, q.link[l.next].prev = l.next, l.prev
	if q.first[b] == i+1 {
		q.first[b] = l.next + 1
	}
}

// All yields the numbers, those with the lowest keys first. The queue must not
// change meanwhile.
func (q *Queue) All(yield func(int32) bool) {
	for word, set := range q.used {
		for ; set != 0; set &= set - 1 {
			head := q.first[word*64+bits.TrailingZeros64(set)] - 1
			for i := head; ; {
				if !yield(i) {
					return
				}
				if i = q.link[i].next; i == head {
					break
				}
			}
		}
	}
}

// Min returns a number with the lowest key.
func (q *Queue) Min() (i int32, ok bool) {
	for i := range q.All {
		return i, true
	}
	return 0, false
}
