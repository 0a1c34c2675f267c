package delta

import (
	"bytes"
	"slices"
	"strings"
)

// Differ keeps the rows of all topics and the ring of what changed in them. The
// zero value is not usable; it belongs to whoever guards it.
type Differ struct {
	boot   string
	ring   ring
	tables map[string]*table
}

// table is what is known of a topic.
type table struct {
	cols    Columns
	rows    []*Row   // by key
	changes uint64   // how often rows came
	parts   []*Frame // of the snapshot after so many changes; nil: not made yet
	made    uint64

	told    []*told // of each row
	telling uint64  // how often gauges were told
	gauges  *Frame  // of the last telling alone, after so many changes; nil: none, or not made
	of      struct{ changes, telling uint64 }
}

// RingBytes is how much the frames of a ring may take.
const RingBytes = 8 << 20

// NewDiffer returns a Differ without rows, for a boot: a text that tells apart
// the runs of all daemons.
func NewDiffer(boot string, ringBytes int64) *Differ {
	return &Differ{boot: boot, ring: ring{limit: ringBytes}, tables: map[string]*table{}}
}

// Boot returns the boot.
func (d *Differ) Boot() string { return d.boot }

// Update replaces the rows of a topic, of which each key is one, and returns
// whether that made a difference.
func (d *Differ) Update(topic string, cols Columns, rows []Row) (changed bool, err error) {
	t := d.tables[topic]
	if t == nil {
		t = &table{}
		d.tables[topic] = t
	}
	next := make([]*Row, len(rows))
	for i := range rows {
		next[i] = &rows[i]
	}
	slices.SortFunc(next, func(a, b *Row) int { return strings.Compare(a.Key, b.Key) })
	next = slices.CompactFunc(next, func(a, b *Row) bool { return a.Key == b.Key })
	list, err := difference(t.rows, next)
	if err != nil {
		return false, err
	}
	t.told = t.carry(next)
	t.cols, t.rows = cols, next
	t.changes++
	for part := range slices.Chunk(list, PartRows) {
		d.Append(&Frame{Topic: topic, Event: Delta, Data: deltaData(topic, part), items: part})
	}
	return len(list) > 0, nil
}

// difference compares two lists that are sorted by key.
func difference(old, next []*Row) ([]item, error) {
	var list []item
	for len(old) > 0 || len(next) > 0 {
		switch {
		case len(next) == 0 || len(old) > 0 && old[0].Key < next[0].Key:
			list = append(list, item{key: old[0].Key, owner: old[0].Owner})
			old = old[1:]
			continue
		case len(old) > 0 && old[0].Key == next[0].Key:
			same := bytes.Equal(old[0].Still, next[0].Still)
			old = old[1:]
			if same {
				next = next[1:]
				continue
			}
		}
		it, err := itemOf(next[0])
		if err != nil {
			return nil, err
		}
		list, next = append(list, it), next[1:]
	}
	return list, nil
}

// Append adds a frame to the ring.
func (d *Differ) Append(f *Frame) { d.ring.append(f) }

// Head returns the offset behind all frames.
func (d *Differ) Head() uint64 { return d.ring.head() }

// After returns the frames behind an offset, at most so many; ok is false if some
// of them are no longer in the ring, or never were.
func (d *Differ) After(offset uint64, most int) (list []*Frame, ok bool) {
	return d.ring.after(offset, most)
}

// Snapshot encodes the rows of a topic, those that may be seen; nil: all.
func (d *Differ) Snapshot(topic string, may func(owner string) bool) ([]*Frame, error) {
	t := d.tables[topic]
	if t == nil {
		t = &table{}
	}
	if may != nil {
		return parts(topic, t.rows, may)
	}
	if t.parts == nil || t.made != t.changes {
		list, err := parts(topic, t.rows, nil)
		if err != nil {
			return nil, err
		}
		t.parts, t.made = list, t.changes
	}
	return t.parts, nil
}

// carry is what was told of the next rows: of one that is not told as a whole now, what
// was before.
func (t *table) carry(next []*Row) []*told {
	list := make([]*told, 0, len(next))
	i := 0
	for _, r := range next {
		for i < len(t.rows) && t.rows[i].Key < r.Key {
			i++
		}
		if i < len(t.rows) && t.rows[i].Key == r.Key && bytes.Equal(t.rows[i].Still, r.Still) {
			list = append(list, t.told[i])
			continue
		}
		list = append(list, toldWith(r))
	}
	return list
}

// Tell has the gauges that are no longer what was told be told, and reports whether
// there are any. It counts as a telling then.
func (d *Differ) Tell(topic string) bool {
	t := d.tables[topic]
	if t == nil || len(t.cols) == 0 {
		return false
	}
	some := false
	for i, r := range t.rows {
		some = t.told[i].tell(t.cols, r, t.telling+1) || some
	}
	if some {
		t.telling++
	}
	return some
}

// Tellings counts those of a topic: where a reader is that has its snapshot.
func (d *Differ) Tellings(topic string) uint64 {
	if t := d.tables[topic]; t != nil {
		return t.telling
	}
	return 0
}

// Gauges encodes what was told after so many tellings of a topic, of the rows that may
// be seen; nil: all. There may be none.
func (d *Differ) Gauges(topic string, after uint64, may func(owner string) bool) *Frame {
	t := d.tables[topic]
	if t == nil || after >= t.telling {
		return nil
	}
	if may != nil || after+1 < t.telling {
		return gauges(topic, t, after, may)
	}
	if t.of.changes != t.changes || t.of.telling != t.telling {
		t.gauges = gauges(topic, t, after, nil)
		t.of.changes, t.of.telling = t.changes, t.telling
	}
	return t.gauges
}

// Forget drops the rows of a topic. That makes no difference.
func (d *Differ) Forget(topic string) { delete(d.tables, topic) }
