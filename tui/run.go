package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/skein-project/skein/api"
)

// Watch reads a watch until the context ends or nothing more can come: it calls heard
// with each message, and lost when it tries again.
type Watch func(ctx context.Context, heard func(api.WatchMessage) error, lost func(cause error)) error

// Pace of a program.
const (
	redraws = 5 // a second, at most
	pause   = time.Second / redraws
	maxHeld = 256 // messages that wait for the next picture; the watch waits behind them
)

// ErrTerminal says that the terminal is gone.
var ErrTerminal = errors.New("the terminal is gone")

// Run shows a watch on a terminal until somebody ends it, the context ends or the
// terminal goes away. The screen is taken when the first message is there: what fails
// before is only returned.
func Run(ctx context.Context, in, out *os.File, env []string, o Options, watch Watch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	heard, lost := make(chan api.WatchMessage, maxHeld), make(chan error, 1)
	all.Go(func() {
		err := watch(ctx, func(m api.WatchMessage) error {
			select {
			case heard <- m:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, func(cause error) {
			select {
			case lost <- cause:
			default: // one that is not told yet will do
			}
		})
		cancel(err) // nil: nothing more comes
	})
	var first api.WatchMessage
	select {
	case first = <-heard:
	case <-ctx.Done():
		return ended(ctx)
	}
	p := tea.NewProgram(New(o), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithEnvironment(env), tea.WithFPS(redraws), tea.WithoutSignalHandler())
	all.Go(func() { hand(ctx, p.Send, first, heard, lost) })
	all.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, _, err := term.GetSize(int(out.Fd())); err != nil {
				cancel(ErrTerminal)
				return
			}
		}
	})
	_, err := p.Run()
	if cause := ended(ctx); cause != nil || ctx.Err() != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// ended is why the context of Run ended; nil: nobody minds.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// hand sends what was heard to the model, all of a while at once, and each second
// what time it is.
func hand(ctx context.Context, send func(tea.Msg), first api.WatchMessage, heard <-chan api.WatchMessage, lost <-chan error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	held := []api.WatchMessage{first}
	send(Tick{time.Now()})
	told := time.Now()
	for {
		more := heard
		if len(held) >= maxHeld {
			more = nil
		}
		select {
		case <-ctx.Done():
			return
		case m := <-more:
			held = append(held, m)
		case cause := <-lost:
			if len(held) > 0 { // came before
				send(Heard{time.Now(), held})
				held = nil
			}
			send(Lost{cause})
		case now := <-tick.C:
			if len(held) > 0 {
				send(Heard{now, held})
				held, told = nil, now
			} else if now.Sub(told) >= time.Second {
				send(Tick{now})
				told = now
			}
		}
	}
}
