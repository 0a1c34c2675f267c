package member

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// maxEvidence bounds what Table keeps of refused contradictions.
const maxEvidence = 64

// Evidence is two valid records that contradict each other.
type Evidence struct {
	Node  cluster.NodeID // of the record that was kept
	Why   error          // ErrForked or ErrConflict
	Kept  Signed
	Other Signed
	At    int64 // when this host saw it, seconds since the Unix epoch
}

// Words for what Evidence.Why says.
const (
	WhyForked   = "forked"   // one key signed two announcements of one epoch
	WhyConflict = "conflict" // two keys have one node id, address or WireGuard key
)

// Word returns WhyForked or WhyConflict.
func (e Evidence) Word() string {
	if e.Why == ErrForked { //nolint:errorlint // one of two values, never wrapped
		return WhyForked
	}
	return WhyConflict
}

type evidenceJSON struct {
	Node  cluster.NodeID `json:"node"`
	Why   string         `json:"why"`
	Kept  Signed         `json:"kept"`
	Other Signed         `json:"other"`
	At    int64          `json:"at"`
}

// MarshalJSON implements json.Marshaler.
func (e Evidence) MarshalJSON() ([]byte, error) {
	return json.Marshal(evidenceJSON{Node: e.Node, Why: e.Word(), Kept: e.Kept, Other: e.Other, At: e.At})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Evidence) UnmarshalJSON(b []byte) error {
	var v evidenceJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v.Kept.IsZero() || v.Other.IsZero() {
		return fmt.Errorf("evidence without its records: %w", ErrFormat)
	}
	*e = Evidence{Node: v.Node, Kept: v.Kept, Other: v.Other, At: v.At}
	switch v.Why {
	case WhyForked:
		e.Why = ErrForked
	case WhyConflict:
		e.Why = ErrConflict
	default:
		return fmt.Errorf("evidence of %q: %w", v.Why, ErrFormat)
	}
	return nil
}

// keep stores evidence, once for each pair of keys: whoever signs a thousand
// contradictions fills one place. When full the oldest goes.
func (t *Table) keep(ch *Change, ev Evidence, now time.Time) {
	about := ev.dispute()
	if slices.ContainsFunc(t.evidence, func(o Evidence) bool { return o.dispute() == about }) {
		return
	}
	if len(t.evidence) >= maxEvidence {
		t.evidence = slices.Delete(t.evidence, 0, 1)
	}
	ev.At = now.Unix()
	t.evidence = append(t.evidence, ev)
	ch.Evidence, ch.Stored = append(ch.Evidence, ev), true
}

// dispute is what evidence is about.
type dispute struct {
	why  string
	a, b key
}

func (e Evidence) dispute() dispute {
	of := func(s Signed) key {
		if e.Why == ErrForked { //nolint:errorlint // see Word
			if a, err := ParseAnn(s); err == nil {
				return key(a.IDPub)
			}
		}
		if c, err := ParseCert(s); err == nil {
			return key(c.IDPub)
		}
		if a, err := ParseAnn(s); err == nil {
			return key(a.IDPub)
		}
		return key{}
	}
	return dispute{why: e.Word(), a: of(e.Kept), b: of(e.Other)}
}

// Evidence returns the contradictions seen, oldest first, at most 64.
func (d *Directory) Evidence() []Evidence { return slices.Clone(d.evidence) }
