package delta

import (
	"encoding/json"
	"math"
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

// Columns names the gauges of a topic's rows.
type Columns []string

// gauges encodes the gauges of rows, in columns; nil without any.
func gauges(topic string, cols Columns, rows []*Row, may func(owner string) bool) *Frame {
	if len(cols) == 0 {
		return nil
	}
	b := append(appendTopic(nil, topic), `,"keys":[`...)
	var shown []*Row
	for _, r := range rows {
		if may != nil && !may(r.Owner) {
			continue
		}
		if len(shown) > 0 {
			b = append(b, ',')
		}
		b, shown = appendText(b, r.Key), append(shown, r)
	}
	if len(shown) == 0 {
		return nil
	}
	b = append(b, `],"cols":{`...)
	for i, name := range cols {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, name), `:[`...)
		for j, r := range shown {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendGauge(b, r.Gauges[i])
		}
		b = append(b, ']')
	}
	return &Frame{Topic: topic, Event: Gauges, Data: append(b, `}}`...)}
}

// appendGauge writes whole numbers as they are, others with six digits.
func appendGauge(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, `null`...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'g', 6, 64)
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
