package loadview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/load/live"
)

// Feed tells what is counted until a test has ended, the context ends or nothing more can
// come; lost says that it is tried again, say tells something beside. All return at once.
type Feed func(ctx context.Context, heard func(api.LoadLive), lost func(error), say func(string)) error

// Pace of a program.
const (
	redraws = 5 // a second, at most
	pause   = time.Second / redraws
)

// ErrLeft says that somebody left before the end.
var ErrLeft = errors.New("left before its end")

// Run shows a feed on a terminal. It returns when the feed has: nil, or its error; ErrLeft
// when somebody left, after the feed has ended by its context. The terminal is as it was
// before by then.
func Run(ctx context.Context, in, out *os.File, env []string, o Options, feed Feed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	box := &inbox{}
	m := New(o)
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(env), tea.WithFPS(redraws), tea.WithoutSignalHandler())
	defer context.AfterFunc(ctx, p.Quit)()
	var fed error
	over := make(chan struct{})
	all.Go(func() {
		fed = feed(ctx, func(x api.LoadLive) { box.put(func(b *inbox) { b.add(x) }) },
			func(cause error) { box.put(func(b *inbox) { b.lost = cause }) },
			func(text string) { box.put(func(b *inbox) { b.said = text }) })
		close(over)
		p.Quit()
	})
	handing, stop := context.WithCancel(context.Background())
	all.Go(func() { hand(handing, p.Send, box) })
	_, err := p.Run()
	stop()
	left := false
	select {
	case <-over:
	default:
		if left = !m.Ended(); left { // else the feed has told of the end, and ends by itself
			cancel()
		}
	}
	all.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("terminal: %w", err)
	case left && (fed == nil || errors.Is(fed, context.Canceled)):
		return ErrLeft
	}
	return fed
}

// inbox is what the feed told and the program does not know yet. Putting something in never
// waits.
type inbox struct {
	mu   sync.Mutex
	list []api.LoadLive
	lost error
	said string
}

// keep is how many answers wait for a terminal that takes nothing, as one that somebody stopped;
// of more, the two oldest become one.
const keep = 64

func (b *inbox) add(x api.LoadLive) {
	if b.list = append(b.list, x); len(b.list) > keep {
		b.list[1] = live.Join(b.list[0], b.list[1])
		b.list = slices.Delete(b.list, 0, 1)
	}
}

func (b *inbox) put(f func(*inbox)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// hand sends to the program what is new, all of a while at once, and what time it is.
func hand(ctx context.Context, send func(tea.Msg), b *inbox) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.mu.Lock()
		list, lost, said := b.list, b.lost, b.said
		b.list, b.lost, b.said = nil, nil, ""
		b.mu.Unlock()
		if len(list) > 0 {
			send(Heard{time.Now(), list})
		} else {
			send(Tick{time.Now()})
		}
		if lost != nil {
			send(Lost{lost})
		}
		if said != "" {
			send(Said{said})
		}
	}
}
