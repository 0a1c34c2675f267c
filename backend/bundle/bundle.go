package bundle

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/internal/wait"
)

// maxFile bounds one file before it is packed.
const maxFile = 2 << 20

// View answers one question of the API.
type View func(ctx context.Context) (any, error)

// Of makes a View.
func Of[T any](f func(context.Context) (T, error)) View {
	return func(ctx context.Context) (any, error) { return f(ctx) }
}

// Options are what a Gatherer reads.
type Options struct {
	Views    map[string]View // by name of the file, without .json
	Metrics  prometheus.Gatherer
	Warnings func() []byte
	// Events is the event log of so long back, or of less if there are more bytes than
	// most, and from when on.
	Events func(ctx context.Context, span time.Duration, most int) (text []byte, from time.Time, err error)
	// Wait waits, for the profile of the processor; nil: as the clock goes.
	Wait func(ctx context.Context, d time.Duration) error
}

// Gatherer gathers.
type Gatherer struct {
	o    Options
	busy chan struct{} // holds one while Gather runs
}

// New returns a Gatherer.
func New(o Options) *Gatherer {
	if o.Wait == nil {
		o.Wait = wait.For
	}
	return &Gatherer{o: o, busy: make(chan struct{}, 1)}
}

// Gather returns the files. What cannot be had is named with the reason; the first files
// are whole, and what exceeds the bounds of the api is cut.
func (g *Gatherer) Gather(ctx context.Context, ask api.DebugAsk) ([]api.DebugFile, error) {
	select {
	case g.busy <- struct{}{}:
		defer func() { <-g.busy }()
	default:
		return nil, api.Errorf(api.CodeOverloaded, "this is being gathered for somebody else")
	}
	p := packer{size: api.MaxDebugHost, packed: api.MaxDebugPacked}
	if ask.Carried {
		p.packed = api.MaxDebugCarried
	}
	for _, name := range slices.Sorted(maps.Keys(g.o.Views)) {
		body, err := g.o.Views[name](ctx)
		var text []byte
		if err == nil {
			text, err = json.MarshalIndent(body, "", " ")
		}
		p.add(name+".json", text, err)
	}
	p.with("metrics.txt", g.metrics)
	p.add("warnings.jsonl", newer(g.o.Warnings(), ask.Since), nil)
	for _, name := range []string{"goroutine", "heap"} {
		p.with(name+map[string]string{"goroutine": ".txt", "heap": ".pprof"}[name], func(b *bytes.Buffer) error {
			// As text goroutines come grouped, without the values of their arguments.
			return pprof.Lookup(name).WriteTo(b, map[string]int{"goroutine": 1, "heap": 0}[name])
		})
	}
	if ask.Profile > 0 {
		p.with("cpu.pprof", func(b *bytes.Buffer) error {
			if err := pprof.StartCPUProfile(b); err != nil {
				return err
			}
			defer pprof.StopCPUProfile()
			return g.o.Wait(ctx, ask.Profile)
		})
	}
	if ask.Log {
		p.files = append(p.files, g.events(ctx, ask.Since))
	}
	return p.files, ctx.Err()
}

// events is the file with the event log: as much of what was asked for as there is room
// for. It is never cut, since only the whole of a part proves itself.
func (g *Gatherer) events(ctx context.Context, since time.Duration) api.DebugFile {
	f := api.DebugFile{Name: api.DebugLogFile}
	fail := func(err error) api.DebugFile {
		f.Error = err.Error()
		return f
	}
	if since == 0 {
		since = api.MaxDebugSince
	}
	now := time.Now()
	for most := api.MaxDebugLog; ; most /= 2 {
		text, from, err := g.o.Events(ctx, since, most)
		if err != nil {
			return fail(err)
		}
		if packed := pack(text); len(packed) <= api.MaxDebugLogPacked {
			f.Gzip, f.Size = packed, len(text)
			if from.After(now.Add(-since / 2)) {
				f.Error = fmt.Sprintf("it has the last %s: there is room for %d bytes", now.Sub(from).Round(time.Second), most)
			}
			return f
		}
	}
}

// newer leaves out the lines that are older than since; 0: none. What has no time stays.
func newer(lines []byte, since time.Duration) []byte {
	if since == 0 {
		return lines
	}
	then := time.Now().Add(-since)
	var out []byte
	for line := range bytes.Lines(lines) {
		var l struct {
			Time time.Time `json:"time"`
		}
		if json.Unmarshal(line, &l) != nil || l.Time.IsZero() || l.Time.After(then) {
			out = append(out, line...)
		}
	}
	return out
}

func (g *Gatherer) metrics(b *bytes.Buffer) error {
	families, err := g.o.Metrics.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(b, f); err != nil {
			return err
		}
	}
	return nil
}

// packer packs files as long as there is room.
type packer struct {
	size, packed int // left
	files        []api.DebugFile
}

func (p *packer) with(name string, write func(*bytes.Buffer) error) {
	var b bytes.Buffer
	err := write(&b)
	p.add(name, b.Bytes(), err)
}

// add packs one file, cut to what there is room for: text that does not pack is halved
// until it does.
func (p *packer) add(name string, text []byte, err error) {
	f := api.DebugFile{Name: name}
	if err != nil {
		f.Error = err.Error()
		p.files = append(p.files, f)
		return
	}
	whole := len(text)
	text = text[:min(whole, maxFile, p.size)]
	for {
		f.Gzip = pack(text)
		if len(f.Gzip) <= p.packed || len(text) == 0 {
			break
		}
		text = text[:len(text)/2]
	}
	if f.Size = len(text); f.Size < whole {
		f.Error = fmt.Sprintf("cut: it has %d bytes", whole)
	}
	if len(f.Gzip) > p.packed {
		f.Gzip = nil
	}
	p.size -= f.Size
	p.packed -= len(f.Gzip)
	p.files = append(p.files, f)
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}
