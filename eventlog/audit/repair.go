package audit

import (
	"context"
	"crypto/ed25519"
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
	"github.com/skein-project/skein/eventlog/snapshot"
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
	// Used says that a daemon ran with this log, so that it was there once.
	Used bool
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
	Aside string         `json:"aside,omitempty"` // directory of the damaged files; empty: none
	Peer  cluster.NodeID `json:"peer,omitempty"`
	// State says that not events are missing but the state up to where they were
	// dropped: it is fetched as a snapshot of another host.
	State bool `json:"state,omitempty"`
	// TakenBack: nothing was damaged, see TakeBack.
	TakenBack bool `json:"taken_back,omitempty"`
}

// Renewal is why the own chain goes on as a new incarnation, if not since it was
// damaged.
func (r Repairing) Renewal() string {
	if r.TakenBack {
		return r.Reason
	}
	return ""
}

// SetAside is a file or directory of the log, not of a chain, that was moved out of
// it.
type SetAside struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Aside  string `json:"aside"`
}

// Repaired is what a Repair did, and what is left of earlier ones.
type Repaired struct {
	Chains []Repairing
	Files  []SetAside
}

// Repair makes a damaged log fit to be opened: of each damaged chain it leaves
// what is before the damage, sets the rest aside and notes what is missing. The
// log must not be open. Opened again it fetches that like anything else that
// other hosts have, and the own chain, if it is one of them, goes on as a new
// incarnation; see Log.Mend. What else is damaged, or does not belong into the
// log, is set aside. Nothing is changed if nothing is damaged. It can be repeated
// after a crash.
func Repair(ctx context.Context, o RepairOptions) (out Repaired, err error) {
	fresh, lost := o.renew()
	if lost {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return out, fmt.Errorf("repair event log: %w", err)
		}
	}
	lock, err := durable.Lock(o.Dir)
	if err != nil {
		return out, fmt.Errorf("repair event log: %w", err)
	}
	defer lock.Close()
	out.Files, err = o.cleanUp()
	if err != nil {
		return out, fmt.Errorf("repair event log: %w", err)
	}
	if out.Chains, err = o.pending(out.Files); err != nil {
		return out, fmt.Errorf("repair event log: %w", err)
	}
	if lost {
		out.Chains = merge(out.Chains, fresh)
		if err := SaveRepairs(o.Dir, out.Chains); err != nil {
			return out, fmt.Errorf("repair event log: %w", err)
		}
	}
	if out.Chains, err = o.cut(ctx, out.Chains); err != nil {
		return out, fmt.Errorf("repair event log: %w", err)
	}
	out.Chains, err = o.lacking(out.Chains)
	return out, err
}

// pending returns what earlier repairs left to be fetched.
func (o RepairOptions) pending(aside []SetAside) ([]Repairing, error) {
	list, err := LoadRepairs(o.Dir)
	if err != nil {
		return nil, err
	}
	if r, ok, err := o.forgotten(aside); err != nil {
		return nil, err
	} else if ok {
		list = merge(list, r)
	}
	if o.AcceptLoss {
		for i := range list {
			if !list[i].State {
				list[i].Known = 0
			}
		}
	}
	return list, SaveRepairs(o.Dir, list)
}

// cut cuts off every chain where it is damaged.
func (o RepairOptions) cut(ctx context.Context, pending []Repairing) ([]Repairing, error) {
	last := ""
	for {
		_, err := Verify(ctx, VerifyOptions{Dir: o.Dir, Cluster: o.Cluster, KeyOf: o.KeyOf, Self: o.Self, ChainsOnly: true})
		if err == nil {
			return pending, nil
		}
		c, ok := errors.AsType[*segment.CorruptError](err)
		if !ok {
			return pending, err
		}
		if c.Source.Inc == 0 || c.Error() == last {
			return pending, fmt.Errorf("this cannot be set aside: %w", c)
		}
		last = c.Error()
		r, err := o.setAside(c)
		if err != nil {
			return pending, fmt.Errorf("repair %s: %w", c.Source, err)
		}
		pending = merge(pending, r)
		if err := o.finish(pending, r); err != nil {
			return pending, fmt.Errorf("repair %s: %w", c.Source, err)
		}
	}
}

// merge adds r; of a chain that is listed already the lower end and the higher
// goal count.
func merge(list []Repairing, r Repairing) []Repairing {
	for i, old := range list {
		if old.Source == r.Source && old.State == r.State {
			list[i].Kept, list[i].Known = min(old.Kept, r.Kept), max(old.Known, r.Known)
			list[i].Own, list[i].Peer = old.Own || r.Own, r.Peer
			if old.Aside == "" {
				list[i].Aside = r.Aside
			}
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
		Aside: filepath.Join(o.Aside, segment.SourceDir(c.Source)+"."+o.stamp()),
	}
	firsts, err := segment.Files(disk.OSFS(), dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	copied := false
	for _, first := range firsts {
		name := segment.Name(first)
		if filepath.Dir(c.Segment) == dir && name < filepath.Base(c.Segment) {
			continue // before the damage
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return r, err
		}
		r.Known = max(r.Known, highest(b, c.Source))
		if err := os.MkdirAll(r.Aside, 0o700); err != nil {
			return r, err
		}
		copied = true
		if err := durable.WriteFile(filepath.Join(r.Aside, name), b, 0o600); err != nil {
			return r, err
		}
	}
	if !copied {
		r.Aside = ""
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
	p, err := loadPast(o.files(), true)
	if err != nil {
		return r, err
	}
	for _, t := range p.kept {
		r.Known = max(r.Known, snapshot.HeadOf(t, c.Source).Seq)
	}
	if o.AcceptLoss {
		r.Known = 0
	}
	return r, nil
}

// highest returns the last event of src that the readable frames in b tell of. The
// file may be that of another chain.
func highest(b []byte, src event.SourceID) (seq uint64) {
	own := false // the seal is of the chain that the header names
	for i := 0; i < len(b); {
		fr, n, err := record.ParseFrame(b[i:])
		if err != nil {
			i++
			continue
		}
		i += n
		switch fr.Type {
		case record.TypeHeader:
			h, err := record.DecodeHeader(fr.Payload)
			own = err == nil && h.Source == src
		case record.TypeEvent:
			if e, err := record.DecodeEvent(fr.Payload); err == nil && e.Source == src {
				seq = max(seq, e.Seq)
			}
		case record.TypeHead:
			if h, err := record.DecodeHead(fr.Payload); err == nil && h.Source == src {
				seq = max(seq, h.Seq)
			}
		case record.TypeSeal:
			if s, err := record.DecodeSeal(fr.Payload); err == nil && own {
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
	var aside []fs.DirEntry
	if r.Aside != "" {
		if aside, err = os.ReadDir(r.Aside); err != nil {
			return err
		}
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
	_, err = durable.Repairs.ReadJSON(dir, &list)
	damaged, ok := errors.AsType[*durable.DamagedError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case ok:
		return nil, &segment.CorruptError{Segment: damaged.Path, Reason: damaged.Reason}
	}
	return list, err
}

// SaveRepairs replaces what LoadRepairs returns.
func SaveRepairs(dir string, list []Repairing) error {
	name := durable.Repairs.Path(dir)
	if len(list) == 0 {
		if err := os.Remove(name); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return durable.SyncDir(dir)
	}
	return durable.Repairs.WriteJSON(dir, list)
}
