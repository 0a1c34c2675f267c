//go:build linux

package netns_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/logaudit"
)

// TestLogNemesis kills, cuts off and parts three hosts under load at random,
// mends it all, and looks at their logs: all hosts hold the same events and
// have the same state, every acknowledged job is there, nobody signed two
// histories, and a program that shares no code with them verifies the export of
// each. SKEIN_PROVE=1 does it for 5 minutes; SKEIN_SEED=n repeats a run, as far
// as real processes can be repeated.
func TestLogNemesis(t *testing.T) {
	t.Parallel()
	seed := chooseSeed(t)
	a := newArena(t, cluster.ProfileFast, 3, seed)
	n := newNemesis(a)
	n.rage(time.Now().Add(pick(20*time.Second, 5*time.Minute)))
	n.mend()
	mended := time.Now()
	v := a.calm()
	t.Logf("after %v: the same state %.1f s after the last repair", n.did, time.Since(mended).Seconds())
	a.mind(v, fmt.Sprintf("SKEIN_SEED=%d", seed))
	events, terms := a.sameLogs()
	t.Logf("%d events and %d terms, the same in three logs; %d acknowledged jobs", events, terms, len(a.load.acknowledged()))
	a.done(v)
}

// sameLogs waits until all hosts export the same events, verified by a third
// party, and returns how many there are, and how many start a term.
func (a *arena) sameLogs() (events, terms int) {
	a.t.Helper()
	a.await("the same events in every log", time.Minute, func() error {
		var first [sha256.Size]byte
		for i, d := range a.all {
			s, err := d.api.Status(a.ctx)
			if err != nil {
				return err
			}
			if len(s.Log.Forked) > 0 {
				a.t.Fatalf("%s knows of forks of %v", d.Name(), s.Log.Forked)
			}
			export := d.export()
			audit, err := logaudit.ReadExport(bytes.NewReader(export))
			if err != nil {
				a.t.Fatalf("export of %s: %v", d.Name(), err)
			}
			// The first line is of the host, the last one of its position.
			lines := bytes.SplitN(export, []byte("\n"), 2)
			sum := sha256.Sum256(lines[1])
			if i == 0 {
				first, events, terms = sum, audit.Events, bytes.Count(lines[1], []byte(`"kind":"term_start"`))
			}
			if sum != first {
				return fmt.Errorf("the export of %s has %d events, not those %d of %s", d.Name(), audit.Events, events, a.all[0].Name())
			}
		}
		return nil
	})
	a.await("the same state on every disk", time.Minute, func() error {
		var first cluster.Hash
		for i, d := range a.all {
			out, code := d.skein("log", "verify", "--state-dir", d.state(), "-o", "json")
			var r api.LogVerify
			if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
				a.t.Fatalf("log verify of %s: %v\n%s", d.Name(), err, out)
			}
			if r.StateHash.IsZero() {
				a.t.Fatalf("log verify of %s tells no state:\n%s", d.Name(), out)
			}
			if i == 0 {
				first = r.StateHash
			}
			if r.StateHash != first {
				return errors.New("states differ")
			}
		}
		return nil
	})
	return events, terms
}

// export reads what a host exports.
func (d *daemon) export() []byte {
	d.f.t.Helper()
	name := filepath.Join(d.Dir(), "export-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if out, code := d.skein("log", "export", "--state-dir", d.state(), "--out", name); code != 0 {
		d.f.t.Fatalf("log export of %s: %s", d.Name(), out)
	}
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		d.f.t.Fatal(err)
	}
	return b
}
