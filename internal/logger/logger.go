package logger

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/skein-project/skein/internal/recent"
	"github.com/skein-project/skein/systemd"
)

// Level is the lowest level that is written; it may change at any time. It is
// a sampler because zerolog asks the sampler before it builds the event.
type Level struct{ level atomic.Int32 }

// Sample implements zerolog.Sampler.
func (l *Level) Sample(level zerolog.Level) bool { return int32(level) >= l.level.Load() }

// Set changes it.
func (l *Level) Set(name string) error {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		return fmt.Errorf("log level: %w", err)
	}
	l.level.Store(int32(level))
	return nil
}

// New makes the daemon's logger: a console form on a terminal, else
// JSON, with journald's priority prefix when the journal listens. Warnings also go to
// last.
func New(format, level string, w io.Writer, last *recent.Log) (zerolog.Logger, *Level, error) {
	least := &Level{}
	if err := least.Set(level); err != nil {
		return zerolog.Nop(), nil, err
	}
	if w == nil {
		w = io.Discard
	}
	console := format == "console"
	if f, ok := w.(*os.File); ok && format == "auto" {
		console = term.IsTerminal(int(f.Fd()))
	}
	switch {
	case console:
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000"}
	case os.Getenv("JOURNAL_STREAM") != "":
		w = systemd.PriorityWriter{W: w}
	}
	log := zerolog.New(zerolog.MultiLevelWriter(zerolog.SyncWriter(w), last)).Level(zerolog.TraceLevel).Sample(least).With().Timestamp().Logger()
	return log, least, nil
}
