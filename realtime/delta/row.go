package delta

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Row is one record of a topic. It does not change.
type Row struct {
	Key string
	// Owner is the principal whose thing it is, for as long as there is a row of
	// this key; empty: nobody's.
	Owner string
	// Still is its encoding without its gauges, by which rows are compared.
	Still []byte
	// Gauges are the values of the topic's columns; NaN: there is none.
	Gauges []float64
	// Value encodes as the whole row.
	Value any
}

// item is a row as a frame has it.
type item struct {
	key, owner string
	text       []byte // of the whole row; nil: it is gone
}

func itemOf(r *Row) (item, error) {
	text, err := json.Marshal(r.Value)
	return item{key: r.Key, owner: r.Owner, text: text}, err
}

// Bounds of one part of a snapshot.
const (
	PartRows  = 256
	PartBytes = 64 << 10
)

// parts encodes a snapshot of a topic, of the rows that may be seen.
func parts(topic string, rows []*Row, may func(owner string) bool) ([]*Frame, error) {
	var out []*Frame
	var list []item
	size := 0
	cut := func(last bool) {
		out = append(out, snapshotFrame(topic, list, last))
		list, size = nil, 0
	}
	for _, r := range rows {
		if may != nil && !may(r.Owner) {
			continue
		}
		it, err := itemOf(r)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 && (len(list) == PartRows || size+len(it.text) > PartBytes) {
			cut(false)
		}
		list, size = append(list, it), size+len(it.text)+1
	}
	cut(true)
	return out, nil
}

func snapshotFrame(topic string, list []item, last bool) *Frame {
	b := appendTopic(nil, topic)
	b = append(b, `,"rows":[`...)
	for i, it := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, it.text...)
	}
	b = strconv.AppendBool(append(b, `],"last":`...), last)
	return &Frame{Topic: topic, Event: Snapshot, Data: append(b, '}')}
}

func deltaData(topic string, list []item) []byte {
	b := append(appendTopic(nil, topic), `,"set":[`...)
	n := 0
	for _, it := range list {
		if it.text == nil {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(b, it.text...)
	}
	b = append(b, `],"del":[`...)
	n = 0
	for _, it := range list {
		if it.text != nil {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = appendText(b, it.key)
	}
	return append(b, `]}`...)
}

// Column is a gauge of a topic's rows.
type Column struct {
	Name string
	// Slack is how far a value may be from the one that was told last.
	Slack Slack
}

// Slack is up to how much a value is the same: Least, or a Part of the one that was
// told if that is more. The zero Slack is none at all.
type Slack struct{ Least, Part float64 }

func (s Slack) same(told, v float64) bool {
	if math.IsNaN(told) || math.IsNaN(v) {
		return math.IsNaN(told) == math.IsNaN(v)
	}
	return told == v || math.Abs(v-told) <= max(s.Least, s.Part*math.Abs(told))
}

// Columns are the gauges of a topic's rows.
type Columns []Column

// told is what was told last of the gauges of a row, and in which telling.
type told struct {
	values []float64
	at     []uint64 // 0: with the whole row
}

// toldWith is what was told of a row that was told as a whole.
func toldWith(r *Row) *told {
	return &told{values: slices.Clone(r.Gauges), at: make([]uint64, len(r.Gauges))}
}

// tell notes which gauges of a row are told now, and reports whether there are any.
func (t *told) tell(cols Columns, r *Row, telling uint64) (some bool) {
	for i, c := range cols {
		if !c.Slack.same(t.values[i], r.Gauges[i]) {
			t.values[i], t.at[i], some = r.Gauges[i], telling, true
		}
	}
	return some
}

// gauges encodes those of the rows and columns of which anything was told after a
// telling; nil if there are none.
func gauges(topic string, t *table, after uint64, may func(owner string) bool) *Frame {
	var shown []*Row
	of := make([]bool, len(t.cols))
	for i, r := range t.rows {
		if may != nil && !may(r.Owner) {
			continue
		}
		some := false
		for k, at := range t.told[i].at {
			if at > after {
				of[k], some = true, true
			}
		}
		if some {
			shown = append(shown, r)
		}
	}
	if len(shown) == 0 {
		return nil
	}
	b := append(appendTopic(nil, topic), `,"keys":[`...)
	for i, r := range shown {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, r.Key)
	}
	b = append(b, `],"cols":{`...)
	n := 0
	for i, c := range t.cols {
		if !of[i] {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(appendText(b, c.Name), `:[`...)
		for j, r := range shown {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendGauge(b, r.Gauges[i], c.Slack.digits())
		}
		b = append(b, ']')
	}
	return &Frame{Topic: topic, Event: Gauges, Data: append(b, `}}`...)}
}

// digits are as many as a value with this slack is worth.
func (s Slack) digits() int {
	if s == (Slack{}) {
		return 6
	}
	return 4
}

// appendGauge writes whole numbers as they are, others with so many digits.
func appendGauge(b []byte, v float64, digits int) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, `null`...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', digits, 64)
}

func appendTopic(b []byte, topic string) []byte {
	return appendText(append(b, `{"topic":`...), topic)
}

// appendText writes a JSON string.
func appendText(b []byte, s string) []byte {
	if strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) < 0 {
		return append(append(append(b, '"'), s...), '"')
	}
	text, err := json.Marshal(s)
	if err != nil { // a string always encodes
		panic("delta: " + err.Error())
	}
	return append(b, text...)
}
