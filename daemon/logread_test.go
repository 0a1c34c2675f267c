package daemon

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
)

// stateWithLog makes a state directory whose log has n events, without a
// daemon.
func stateWithLog(t *testing.T, n int) string {
	t.Helper()
	cfg := hostConfig(t)
	if err := Init(cfg, InitOptions{ClusterName: "blue"}); err != nil {
		t.Fatal(err)
	}
	appendTo(t, cfg.StateDir, n)
	return cfg.StateDir
}

// appendTo writes n more events to the log of a state directory.
func appendTo(t *testing.T, stateDir string, n int) {
	t.Helper()
	id, _, err := join.Load(stateDir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: logDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), SegmentSize: 8192,
		MayAct: func(cluster.Term) bool { return true }, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for i := range n {
		d := cluster.Draft{Kind: cluster.KindHostStarted, Body: cluster.HostStarted{Version: "v<1>", Boot: uint64(i)}}
		if i%10 == 0 {
			d = cluster.Draft{Term: cluster.Term(i + 1), Kind: cluster.KindTermStart, Body: cluster.TermStart{Term: cluster.Term(i + 1), Cut: l.Cut()}}
		}
		if _, err := l.Append(ctx, []cluster.Draft{d, d}[:1+i%2]); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// thirdParty verifies exports with nothing but hashes, signatures and JSON,
// as somebody without this program would: by the text of docs/log-format.md.
type thirdParty struct {
	last   map[string]string // source: hash of its last event
	seq    map[string]uint64
	events int
}

type foreignSource struct {
	Node string `json:"node"`
	Inc  uint64 `json:"inc"`
}

func (s foreignSource) String() string { return fmt.Sprintf("%s/%d", s.Node, s.Inc) }

func (p *thirdParty) read(r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<24)
	var head struct {
		Export struct {
			Cluster string `json:"cluster"`
			Heads   []struct {
				Source foreignSource `json:"source"`
				Seq    uint64        `json:"seq"`
				Hash   string        `json:"hash"`
				Sig    string        `json:"sig"`
			} `json:"heads"`
			Keys []struct {
				Node string `json:"node"`
				Key  string `json:"key"`
			} `json:"keys"`
		} `json:"export"`
	}
	if !in.Scan() {
		return errors.New("empty")
	}
	if err := json.Unmarshal(in.Bytes(), &head); err != nil {
		return err
	}
	whole := false
	for in.Scan() {
		if strings.HasPrefix(in.Text(), `{"end":`) {
			whole = true
			continue
		}
		if err := p.event(in.Bytes()); err != nil {
			return err
		}
	}
	if !whole {
		return errors.New("cut short")
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range head.Export.Keys {
		b, err := base64.StdEncoding.DecodeString(k.Key)
		if err != nil {
			return err
		}
		keys[k.Node] = b
	}
	for _, h := range head.Export.Heads {
		sig, err := base64.StdEncoding.DecodeString(h.Sig)
		if err != nil {
			return err
		}
		hash, err := hex.DecodeString(h.Hash)
		if err != nil {
			return err
		}
		msg := append([]byte("skein/head/1\n"), byte(len(head.Export.Cluster)))
		msg = append(msg, head.Export.Cluster...)
		msg = append(append(msg, byte(len(h.Source.Node))), h.Source.Node...)
		msg = binary.BigEndian.AppendUint64(msg, h.Source.Inc)
		msg = append(binary.BigEndian.AppendUint64(msg, h.Seq), hash...)
		if !ed25519.Verify(keys[h.Source.Node], msg, sig) {
			return fmt.Errorf("head of %s: bad signature", h.Source)
		}
		if p.last[h.Source.String()] != h.Hash || p.seq[h.Source.String()] != h.Seq {
			return fmt.Errorf("%s ends at %d, the head says %d", h.Source, p.seq[h.Source.String()], h.Seq)
		}
	}
	return nil
}

func (p *thirdParty) event(line []byte) error {
	var e struct {
		Source foreignSource   `json:"source"`
		Seq    uint64          `json:"seq"`
		Prev   string          `json:"prev"`
		Hash   string          `json:"hash"`
		Raw    string          `json:"raw"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(e.Raw)
	if err != nil {
		return err
	}
	prev, err := hex.DecodeString(e.Prev)
	if err != nil {
		return err
	}
	src := e.Source.String()
	sum := sha256.Sum256(append(append([]byte("evt1"), prev...), raw...))
	switch {
	case hex.EncodeToString(sum[:]) != e.Hash:
		return fmt.Errorf("%s %d: wrong hash", src, e.Seq)
	case e.Seq != p.seq[src]+1, e.Seq > 1 && e.Prev != p.last[src]:
		return fmt.Errorf("%s %d: does not follow %d", src, e.Seq, p.seq[src])
	case !bytes.HasSuffix(raw, e.Body):
		return fmt.Errorf("%s %d: the body is not the one that was hashed", src, e.Seq)
	}
	p.seq[src], p.last[src] = e.Seq, e.Hash
	p.events++
	return nil
}

// TestExportConvincesThirdParty exports a log in two parts, the second from
// where the first ended, and lets somebody verify it who has only the
// standard library. No line of it can be changed or left out.
func TestExportConvincesThirdParty(t *testing.T) {
	dir := stateWithLog(t, 60)
	export := func(o ExportOptions) (string, string) {
		t.Helper()
		var b bytes.Buffer
		end, err := ExportLog(t.Context(), dir, o, &b)
		if err != nil {
			t.Fatal(err)
		}
		return b.String(), end.Cursor
	}
	first, at := export(ExportOptions{})
	appendTo(t, dir, 40)
	from, err := cluster.ParseCursor(at)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := export(ExportOptions{From: from})
	p := &thirdParty{last: map[string]string{}, seq: map[string]uint64{}}
	for _, part := range []string{first, second} {
		if err := p.read(strings.NewReader(part)); err != nil {
			t.Fatal(err)
		}
	}
	if p.events < 100 {
		t.Fatalf("%d events, want 100 and more", p.events)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(first, "\n"), "\n")
	for i := range lines {
		without := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")
		if err := (&thirdParty{last: map[string]string{}, seq: map[string]uint64{}}).read(strings.NewReader(without)); err == nil {
			t.Errorf("line %d can be left out: %.80s", i+1, lines[i])
		}
	}
	forged := strings.Replace(first, `"boot":7`, `"boot":8`, 1)
	if err := (&thirdParty{last: map[string]string{}, seq: map[string]uint64{}}).read(strings.NewReader(forged)); err == nil {
		t.Error("a body can be changed")
	}
	if some, _ := export(ExportOptions{Kinds: []string{"term_*"}}); strings.Count(some, "\n") != 12 || strings.Contains(some, "host_started\"") {
		t.Errorf("ten term starts, head and end: %s", some)
	}
	if none, end := export(ExportOptions{Since: time.Now().Add(time.Hour)}); strings.Count(none, "\n") != 2 || end == "" {
		t.Errorf("nothing since an hour from now: %s", none)
	}
}

// brokenPipe fails after some bytes.
type brokenPipe struct{ left int }

func (w *brokenPipe) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestExportBreaksOff does not claim to be further than it is.
func TestExportBreaksOff(t *testing.T) {
	dir := stateWithLog(t, 10)
	if end, err := ExportLog(t.Context(), dir, ExportOptions{}, &brokenPipe{left: 100}); !errors.Is(err, io.ErrClosedPipe) || end.Cursor != "" {
		t.Errorf("broken pipe: %+v %v", end, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if end, err := ExportLog(ctx, dir, ExportOptions{}, io.Discard); !errors.Is(err, context.Canceled) || end.Events != 0 {
		t.Errorf("cancelled: %+v %v", end, err)
	}
}

func TestReplayLog(t *testing.T) {
	dir := stateWithLog(t, 30)
	r, err := ReplayLog(t.Context(), dir, ReplayOptions{})
	if err != nil || r.Lease.Term != 21 || r.Lease.Holder != "n1" || r.LastAt == nil || len(r.Members) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	v, err := VerifyLog(t.Context(), dir)
	if err != nil || !v.OK || v.StateHash != r.StateHash || v.Events != r.Events {
		t.Fatalf("verify says %+v %v", v, err)
	}
	at, err := cluster.ParseCursor("n1/1:5")
	if err != nil {
		t.Fatal(err)
	}
	if r, err = ReplayLog(t.Context(), dir, ReplayOptions{Position: at}); err != nil || r.Events != 5 || r.Position != "n1/1:5" || r.Lease.Term != 1 {
		t.Fatalf("at 5: %+v %v", r, err)
	}
	if again, err := ReplayLog(t.Context(), dir, ReplayOptions{Clock: r.LastHLC}); err != nil || again.StateHash != r.StateHash {
		t.Fatalf("at the clock of event 5: %+v %v", again, err)
	}
	if r, err = ReplayLog(t.Context(), dir, ReplayOptions{Time: time.Now().Add(-time.Hour)}); err != nil || r.Events != 0 || r.LastAt != nil {
		t.Fatalf("an hour ago: %+v %v", r, err)
	}
	heads, err := LogHeads(dir)
	if err != nil || len(heads) != 1 || heads[0].Seq != v.Events {
		t.Fatalf("%+v %v", heads, err)
	}
}
