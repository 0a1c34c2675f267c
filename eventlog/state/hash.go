package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
)

// digest feeds values to a hash without ambiguity: every value is preceded by
// its length or has a fixed one.
type digest struct {
	h   hash.Hash
	buf [8]byte
}

func (d *digest) num(v uint64) {
	binary.BigEndian.PutUint64(d.buf[:], v)
	d.h.Write(d.buf[:])
}

func (d *digest) flag(v bool) {
	if v {
		d.num(1)
		return
	}
	d.num(0)
}

func (d *digest) float(v float64) { d.num(math.Float64bits(v)) }

func (d *digest) text(s string) {
	d.num(uint64(len(s)))
	d.h.Write([]byte(s))
}

func (d *digest) key(k key) {
	d.num(uint64(k.hlc))
	d.text(string(k.src.Node))
	d.num(k.src.Inc)
	d.num(k.seq)
}

func (d *digest) json(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("state: a valid record cannot be encoded: " + err.Error())
	}
	d.text(string(b))
}

// Hash is a digest of the whole State: equal on every host that applied the
// same events, whatever their order, and different when a job, a term, a
// member or the voters differ. Positions of sources are not part of it: an
// event without effect leaves it unchanged.
func (s *State) Hash() cluster.Hash {
	d := &digest{h: sha256.New()}
	d.text("state1")
	d.num(uint64(len(s.members)))
	for _, n := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[n]
		d.json(m)
		d.key(m.joinedAt)
		d.key(m.startedAt)
	}
	terms := s.termKeys()
	d.num(uint64(len(terms)))
	for _, k := range terms {
		d.key(k.at)
		d.json(s.term(k))
	}
	d.json(s.config)
	d.key(s.configAt)
	for _, id := range slices.SortedFunc(maps.Keys(s.fences.forks), cluster.SourceID.Compare) {
		d.text("fork")
		d.text(string(id.Node))
		d.num(id.Inc)
		d.num(s.fences.forks[id])
	}
	jobs := s.known()
	slices.SortFunc(jobs, func(a, b *job) int { return strings.Compare(string(a.id), string(b.id)) })
	d.num(uint64(len(jobs)))
	for _, j := range jobs {
		j.digest(d)
	}
	return cluster.Hash(d.h.Sum(nil))
}

func (j *job) digest(d *digest) {
	d.json(j.view())
	d.key(j.submittedAt)
	d.key(j.stopAt)
	d.key(j.doneAt)
	for i := range j.chunks {
		c := &j.chunks[i]
		d.num(uint64(c.state()))
		d.flag(c.disputed)
		if a := c.accept; a != nil {
			d.key(a.at)
			d.h.Write(a.hash[:])
			d.num(uint64(a.attempt))
			d.text(string(a.worker))
			continue
		}
		c.digestTries(d)
	}
	for _, name := range slices.Sorted(maps.Keys(j.metrics)) {
		m := j.metrics[name].root()
		if m.N == 0 {
			continue
		}
		d.text(name)
		d.num(m.N)
		for _, v := range []float64{m.Mean, m.M2, m.Min, m.Max} {
			d.float(v)
		}
	}
}

func (c *chunk) digestTries(d *digest) {
	tries := slices.Clone(c.tries)
	slices.SortFunc(tries, func(a, b try) int {
		if a.attempt != b.attempt {
			return a.attempt - b.attempt
		}
		return strings.Compare(string(a.worker), string(b.worker))
	})
	d.num(uint64(len(tries)))
	for _, t := range tries {
		d.num(uint64(t.attempt))
		d.text(string(t.worker))
		d.num(uint64(t.term))
		d.num(uint64(t.at))
		d.flag(t.assigned)
		d.flag(t.failed)
		d.flag(t.reclaimed)
	}
}
