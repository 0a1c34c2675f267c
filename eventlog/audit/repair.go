package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/segment"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/durable"
)

// RepairOptions say which log is to be repaired, and how.
type RepairOptions struct {
	Dir     string
	Cluster string
	Self    cluster.NodeID
	KeyOf   func(cluster.NodeID) ed25519.PublicKey
	// Aside is the directory that gets the damaged files.
	Aside string
	// Peer is asked first for what is missing; empty: any.
	Peer cluster.NodeID
	// AcceptLoss says that what no host has is given up.
	AcceptLoss bool
	// Now names the directories of this repair.
	Now time.Time
}

// Repairing is a chain whose damaged part was set aside and is to be fetched
// again.
type Repairing struct {
	Source event.SourceID `json:"source"`
	Own    bool           `json:"own"`
	// Segment, Offset and Reason say what was wrong first.
	Segment string `json:"segment"`
	Offset  int64  `json:"offset"`
	Reason  string `json:"reason"`
	// Kept is the last event that was left, Known the last one that the disk
	// is known to have had, 0 if its loss was accepted.
	Kept  uint64         `json:"kept"`
	Known uint64         `json:"known"`
	Aside string         `json:"aside"` // directory of the damaged files
	Peer  cluster.NodeID `json:"peer,omitempty"`
}

// repairFile lists the chains that are being repaired.
const repairFile = "repair.json"

// maxRepairs bounds the faults that one Repair finds.
const maxRepairs = 1000

// Repair makes a damaged log fit to be opened: of each damaged chain it leaves
// what is before the damage, sets the rest aside and notes what is missing. The
// log must not be open. Opened again it fetches that like anything else that
// other hosts have, and the own chain, if it is one of them, goes on as a new
// incarnation; see Log.Mend. Nothing is changed if nothing is damaged. It can
// be repeated after a crash.
func Repair(ctx context.Context, o RepairOptions) ([]Repairing, error) {
	lock, err := durable.Lock(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("repair event log: %w", err)
	}
	defer lock.Close()
	pending, err := LoadRepairs(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.AcceptLoss {
		for i := range pending {
			pending[i].Known = 0
		}
		if err := SaveRepairs(o.Dir, pending); err != nil {
			return nil, err
		}
	}
	for range maxRepairs {
		_, err := Verify(ctx, VerifyOptions{Dir: o.Dir, Cluster: o.Cluster, KeyOf: o.KeyOf, Self: o.Self, ChainsOnly: true})
		if err == nil {
			return pending, nil
		}
		c, ok := errors.AsType[*segment.CorruptError](err)
		if !ok {
			return pending, fmt.Errorf("repair event log: %w", err)
		}
		if c.Source.Inc == 0 {
			return pending, fmt.Errorf("repair event log: no chain is damaged but: %w", c)
		}
		r, err := o.setAside(c)
		if err != nil {
			return pending, fmt.Errorf("repair %s: %w", c.Source, err)
		}
		pending = merge(pending, r)
		if err := o.finish(pending, r); err != nil {
			return pending, fmt.Errorf("repair %s: %w", c.Source, err)
		}
	}
	return pending, fmt.Errorf("repair event log: more than %d faults", maxRepairs)
}

// merge adds r; of a chain that is listed already the lower end and the higher
// goal count.
func merge(list []Repairing, r Repairing) []Repairing {
	for i, old := range list {
		if old.Source == r.Source {
			list[i].Kept, list[i].Known = min(old.Kept, r.Kept), max(old.Known, r.Known)
			list[i].Peer = r.Peer
			return list
		}
	}
	return append(list, r)
}

// setAside copies what is damaged, and all after it, out of the chain's
// directory. It changes nothing yet: finish does.
func (o RepairOptions) setAside(c *segment.CorruptError) (r Repairing, err error) {
	dir := filepath.Join(o.Dir, segment.SourceDir(c.Source))
	r = Repairing{
		Source: c.Source, Own: c.Own, Segment: c.Segment, Offset: c.Offset, Reason: c.Reason, Peer: o.Peer, Kept: max(c.Seq, 1) - 1,
		Aside: filepath.Join(o.Aside, segment.SourceDir(c.Source)+"."+o.Now.UTC().Format("20060102T150405")),
	}
	if err := os.MkdirAll(r.Aside, 0o700); err != nil {
		return r, err
	}
	firsts, err := segment.Files(disk.OSFS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, first := range firsts {
		name := segment.Name(first)
		if filepath.Dir(c.Segment) == dir && name < filepath.Base(c.Segment) {
			continue // before the damage
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return r, err
		}
		r.Known = max(r.Known, highest(b))
		if err := durable.WriteFile(filepath.Join(r.Aside, name), b, 0o600); err != nil {
			return r, err
		}
	}
	heads, err := store.LoadMarks(o.Dir)
	if err != nil {
		return r, err
	}
	for _, h := range heads {
		if h.Source == c.Source {
			r.Known = max(r.Known, h.Seq)
		}
	}
	if o.AcceptLoss {
		r.Known = 0
	}
	return r, nil
}

// highest returns the last event that the readable frames in b tell of.
func highest(b []byte) (seq uint64) {
	for i := 0; i < len(b); {
		fr, n, err := record.ParseFrame(b[i:])
		if err != nil {
			i++
			continue
		}
		i += n
		switch fr.Type {
		case record.TypeEvent:
			if e, err := record.DecodeEvent(fr.Payload); err == nil {
				seq = max(seq, e.Seq)
			}
		case record.TypeHead:
			if h, err := record.DecodeHead(fr.Payload); err == nil {
				seq = max(seq, h.Seq)
			}
		case record.TypeSeal:
			if s, err := record.DecodeSeal(fr.Payload); err == nil {
				seq = max(seq, s.Last)
			}
		}
	}
	return seq
}

// finish notes the repair, and then takes out of the directory what was set
// aside. After a crash between the two the damage is found again.
func (o RepairOptions) finish(pending []Repairing, r Repairing) error {
	if err := SaveRepairs(o.Dir, pending); err != nil {
		return err
	}
	heads, err := store.LoadMarks(o.Dir)
	if err != nil {
		return err
	}
	heads = slices.DeleteFunc(heads, func(h event.Head) bool { return h.Source == r.Source })
	if err := store.ReplaceMarks(o.Dir, heads); err != nil {
		return err
	}
	dir := filepath.Join(o.Dir, segment.SourceDir(r.Source))
	aside, err := os.ReadDir(r.Aside)
	if err != nil {
		return err
	}
	for i, e := range slices.Backward(aside) {
		path := filepath.Join(dir, e.Name())
		if i == 0 && path == r.Segment {
			if end := o.goodEnd(path, r); end > 0 {
				if err := os.Truncate(path, end); err != nil {
					return err
				}
				continue
			}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(dir); err == nil { // only if nothing is left
		return durable.SyncDir(o.Dir)
	}
	if err := durable.SyncDir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// errBadHead ends a scan at a group whose head is not signed.
var errBadHead = errors.New("head not signed")

// goodEnd returns where the good groups of a damaged segment end, 0 if there is
// none.
func (o RepairOptions) goodEnd(path string, r Repairing) (end int64) {
	f, err := disk.OSFS().OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0
	}
	_, h, err := segment.ReadHeader(f, size)
	first, ok := segment.ParseName(filepath.Base(path))
	if err != nil || !ok || h.Cluster != o.Cluster || h.Source != r.Source || h.First != first {
		return 0
	}
	s := &segment.Scan{
		ScanOptions: segment.ScanOptions{Path: path, Cluster: o.Cluster, Source: r.Source, First: first},
		Tail:        event.Mark{Seq: first - 1, Hash: h.Prev},
	}
	if key := o.KeyOf(r.Source.Node); key != nil {
		s.Verify = func(h event.Head) error { return record.VerifyHead(o.Cluster, h, key) }
	}
	s.Commit = func(g segment.Group) error {
		if g.BadSig != nil || g.Head.Seq > r.Kept {
			return errBadHead
		}
		end = g.End
		return nil
	}
	_ = s.Run(f, size) // it is known to be damaged
	return end
}

// LoadRepairs returns the chains of the log in dir of which something is still
// to be fetched.
func LoadRepairs(dir string) (list []Repairing, err error) {
	b, err := os.ReadFile(filepath.Join(dir, repairFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", repairFile, err)
	}
	return list, nil
}

// SaveRepairs replaces what LoadRepairs returns.
func SaveRepairs(dir string, list []Repairing) error {
	name := filepath.Join(dir, repairFile)
	if len(list) == 0 {
		if err := os.Remove(name); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return durable.SyncDir(dir)
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(name, append(b, '\n'), 0o600)
}
