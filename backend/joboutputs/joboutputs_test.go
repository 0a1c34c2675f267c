package joboutputs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
)

type log struct{ *state.State }

func (l log) View(f func(*state.State)) { f(l.State) }

// held are artefacts that are here, and those that other hosts have.
type held struct{ here, there map[cluster.Hash]string }

func (h held) Has(hash cluster.Hash) (int64, bool) {
	text, ok := h.here[hash]
	return int64(len(text)), ok
}

func (h held) Fetch(_ context.Context, hash cluster.Hash, _ []cluster.NodeID) error {
	if _, ok := h.there[hash]; ok {
		return nil
	}
	return errors.New("nobody has it")
}

func (h held) Stream(_ context.Context, hash cluster.Hash, size int64, from []cluster.NodeID) (io.ReadCloser, error) {
	text, ok := h.there[hash]
	if !ok || int64(len(text)) != size || len(from) != 1 || from[0] != "w1" {
		return nil, errors.New("nobody has it")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

var (
	annsOutput, bobsOutput, lost = cluster.Hash{1}, cluster.Hash{2}, cluster.Hash{3}
	upload, elsewhere, nowhere   = cluster.Hash{4}, cluster.Hash{5}, cluster.Hash{6}
)

func newOutputs(t *testing.T) *Outputs {
	t.Helper()
	st, seq := state.New(), uint64(0)
	add := func(kind event.Kind, body any) {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		seq++
		st.Apply(event.Event{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: seq, HLC: cluster.HLC(seq), Term: 1, Kind: kind, Body: b})
	}
	add(event.KindTermStart, json.RawMessage(`{"term":1,"profile":"lan"}`))
	for owner, files := range map[string]job.Files{
		"user:ann": {"a": {Hash: annsOutput, Size: 4}, "b": {Hash: lost, Size: 4}},
		"user:bob": {"a": {Hash: bobsOutput, Size: 4}, "b": {Hash: upload, Size: 4}},
	} {
		spec := job.Spec{Key: "k", Executor: job.ExecutorExec, Program: "p", Iterations: 1, Chunk: 1, Policy: job.Policy{Result: job.ResultNone, Outputs: []string{"a", "b"}}}.WithDefaults()
		add(event.KindJobSubmitted, event.JobSubmitted{Job: job.ID("j" + owner), Spec: spec, Owner: owner, Chunks: 1})
		add(event.KindChunkAccepted, event.ChunkAccepted{
			Job: job.ID("j" + owner), Attempt: 1, Worker: "w1", Result: job.ChunkResult{Iterations: 1, Metrics: map[string]job.Metric{}, Outputs: files},
		})
	}
	return New(Options{
		Log: log{st}, Artefacts: held{here: map[cluster.Hash]string{upload: "text"}, there: map[cluster.Hash]string{elsewhere: "text", annsOutput: "text", bobsOutput: "text"}},
		Aware: func(event.Kind) error { return nil },
	})
}

// TestWhoseFiles: a job is given outputs of its owner's jobs, and uploads, which may be
// what another's job left as well.
func TestWhoseFiles(t *testing.T) {
	o := newOutputs(t)
	for name, c := range map[string]struct {
		file    cluster.Hash
		uploads int
		ok      bool
	}{
		"own": {annsOutput, 0, true}, "of another": {bobsOutput, 0, false}, "upload": {upload, 1, true}, "upload elsewhere": {elsewhere, 1, true},
		"nowhere": {nowhere, 0, false},
	} {
		spec := job.Spec{Policy: job.Policy{Files: map[string]cluster.Hash{"f": c.file}}}
		uploads, err := o.CheckFiles(t.Context(), spec, "user:ann")
		p, _ := errors.AsType[*api.Problem](err)
		if (err == nil) != c.ok || len(uploads) != c.uploads || err != nil && (p == nil || p.Code != api.CodeNotFound) {
			t.Errorf("%s: %v, %v", name, uploads, err)
		}
	}
	old := errors.New("n9 does not know")
	o.o.Aware = func(kind event.Kind) error {
		if kind == event.FilesOfJob() {
			return old
		}
		return nil
	}
	for _, p := range []job.Policy{{Outputs: []string{"a"}}, {Result: job.ResultNone}, {Files: map[string]cluster.Hash{"f": upload}}} {
		if _, err := o.CheckFiles(t.Context(), job.Spec{Policy: p}, "user:ann"); !errors.Is(err, old) {
			t.Errorf("%+v while a member does not know it: %v", p, err)
		}
	}
	if _, err := o.CheckFiles(t.Context(), job.Spec{}, "user:ann"); err != nil {
		t.Errorf("a job without files: %v", err)
	}
}

// TestReadOutputs: what a job left is listed, and read from whoever has it.
func TestReadOutputs(t *testing.T) {
	o := newOutputs(t)
	list, err := o.JobOutputs(t.Context(), "juser:ann")
	if err != nil || len(list.Outputs) != 2 || list.Sum == nil || list.Sum.Files != 2 || list.Sum.Bytes != 8 || list.Outputs[0].Name != "a" || list.Outputs[0].Worker != "w1" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := o.JobOutputs(t.Context(), "jnone"); err == nil {
		t.Error("a job that is not there has outputs")
	}
	f, r, err := o.OpenOutput(t.Context(), "juser:ann", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil || b.String() != "text" || f.Hash != annsOutput {
		t.Errorf("%q of %+v, %v", b.String(), f, err)
	}
	for name, c := range map[string]struct {
		chunk int
		file  string
		want  api.Code
	}{"lost": {0, "b", api.CodeNotReady}, "no file": {0, "c", api.CodeNotFound}, "no chunk": {1, "a", api.CodeNotFound}} {
		_, _, err := o.OpenOutput(t.Context(), "juser:ann", c.chunk, c.file)
		if p, _ := errors.AsType[*api.Problem](err); p == nil || p.Code != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
