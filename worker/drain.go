package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/wait"
)

// last tells attempts that they end soon.
type last struct {
	once sync.Once
	soon chan struct{} // closed once they do
}

func (l *last) begin() { l.once.Do(func() { close(l.soon) }) }

// finishEvery is how often Finish looks.
const finishEvery = 50 * time.Millisecond

// Finish drains this worker for good: what runs is told that it ends soon. It returns once
// nothing runs and all results are accepted, or with an error when ctx ends before.
func (w *Worker) Finish(ctx context.Context) error {
	if err := w.Drain(ctx, true); err != nil {
		return err
	}
	w.last.begin()
	for {
		v := w.View()
		if v.Draining && len(v.Running)+v.Queued+v.Kept == 0 {
			return nil
		}
		if err := wait.For(ctx, finishEvery); err != nil {
			return fmt.Errorf("drain worker: %d attempts run, %d results are not accepted: %w", len(v.Running), v.Kept, err)
		}
	}
}

// Drain lets this worker finish what runs and begin nothing, or undoes that.
// The wish outlives the process. What was queued is given back.
func (w *Worker) Drain(ctx context.Context, on bool) error {
	if err := w.rememberDrain(on); err != nil {
		return err
	}
	select {
	case w.drains <- on:
		return nil
	case <-w.done:
		return errors.New("drain worker: it stops, and will drain after the next start")
	case <-ctx.Done():
		return fmt.Errorf("drain worker: %w", ctx.Err())
	}
}

func (w *Worker) rememberDrain(on bool) error {
	name := w.opts.DrainFile
	switch {
	case name == "":
		return nil
	case on:
		if err := durable.WriteFile(name, nil, 0o600); err != nil {
			return fmt.Errorf("drain worker: %w", err)
		}
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end drain of worker: %w", err)
	}
	return nil
}

// wasDrained looks for a wish of an earlier process.
func (w *Worker) wasDrained() (bool, error) {
	if w.opts.DrainFile == "" {
		return false, nil
	}
	_, err := os.Stat(w.opts.DrainFile)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, fmt.Errorf("is the worker drained: %w", err)
}
