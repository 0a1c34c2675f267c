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
func (g *Gatherer) Gather(ctx context.Context, profile time.Duration) ([]api.DebugFile, error) {
	if profile < 0 || profile > api.MaxDebugProfile {
		return nil, api.Errorf(api.CodeInvalidRequest, "a profile takes %s at most", api.MaxDebugProfile)
	}
	select {
	case g.busy <- struct{}{}:
		defer func() { <-g.busy }()
	default:
		return nil, api.Errorf(api.CodeOverloaded, "this is being gathered for somebody else")
	}
	p := packer{size: api.MaxDebugHost, packed: api.MaxDebugPacked}
	for _, name := range slices.Sorted(maps.Keys(g.o.Views)) {
		body, err := g.o.Views[name](ctx)
		var text []byte
		if err == nil {
			text, err = json.MarshalIndent(body, "", " ")
		}
		p.add(name+".json", text, err)
	}
	p.with("metrics.txt", g.metrics)
	p.add("warnings.jsonl", g.o.Warnings(), nil)
	for _, name := range []string{"goroutine", "heap"} {
		p.with(name+map[string]string{"goroutine": ".txt", "heap": ".pprof"}[name], func(b *bytes.Buffer) error {
			// As text goroutines come grouped, without the values of their arguments.
			return pprof.Lookup(name).WriteTo(b, map[string]int{"goroutine": 1, "heap": 0}[name])
		})
	}
	if profile > 0 {
		p.with("cpu.pprof", func(b *bytes.Buffer) error {
			if err := pprof.StartCPUProfile(b); err != nil {
				return err
			}
			defer pprof.StopCPUProfile()
			return g.o.Wait(ctx, profile)
		})
	}
	return p.files, ctx.Err()
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
