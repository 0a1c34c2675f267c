package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/skein-project/skein/internal/durable"
)

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
