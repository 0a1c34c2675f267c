package plan

import "math/bits"

// Buckets per octave of a key, and how many there are in all.
const (
	stepBits = 3
	buckets  = 64 << stepBits
)

// bucketOf puts keys that differ by less than an eighth of an octave together.
func bucketOf(key uint64) int {
	if key < 1<<stepBits {
		return int(key)
	}
	octave := bits.Len64(key) - 1
	step := int(key>>(octave-stepBits)) & (1<<stepBits - 1)
	return (octave-stepBits+1)<<stepBits + step
}

// queue holds small numbers by a key that is rounded to its bucket. Setting,
// removing and finding the lowest take constant time and, once it has grown,
// no memory: each bucket is a ring through link, and a bitmap tells which
// buckets hold anything. Equal ones come in the order in which they were set.
type queue struct {
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

func (q *queue) has(i int32) bool { return int(i) < len(q.link) && q.link[i].at > 0 }

// set puts i where key belongs. It keeps its place in a bucket that it is in.
func (q *queue) set(i int32, key uint64) {
	for int(i) >= len(q.link) {
		q.link = append(q.link, link{})
	}
	b := bucketOf(key)
	if l := &q.link[i]; l.at > 0 {
		if int(l.at) == b+1 {
			return
		}
		q.remove(i)
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

func (q *queue) remove(i int32) {
	if !q.has(i) {
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

// all yields the numbers, those with the lowest keys first. The queue must not
// change meanwhile.
func (q *queue) all(yield func(int32) bool) {
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

// min returns a number with the lowest key.
func (q *queue) min() (i int32, ok bool) {
	for i := range q.all {
		return i, true
	}
	return 0, false
}
