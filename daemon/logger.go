package daemon

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// logLevel is the lowest level that is written; it may change at any time. It is
// a sampler because zerolog asks the sampler before it builds the event.
type logLevel struct{ level atomic.Int32 }

// Sample implements zerolog.Sampler.
func (l *logLevel) Sample(level zerolog.Level) bool { return int32(level) >= l.level.Load() }

func (l *logLevel) set(name string) error {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		return fmt.Errorf("log level: %w", err)
	}
	l.level.Store(int32(level))
	return nil
}

// newLogger makes the daemon's logger: a console form on a terminal, else
// JSON, with journald's priority prefix when the journal listens.
func newLogger(format, level string, w io.Writer) (zerolog.Logger, *logLevel, error) {
	least := &logLevel{}
	if err := least.set(level); err != nil {
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
		w = priorityWriter{w}
	}
	log := zerolog.New(zerolog.SyncWriter(w)).Level(zerolog.TraceLevel).Sample(least).With().Timestamp().Logger()
	return log, least, nil
}

// priorityWriter puts the priority in front of each line, as in sd-daemon(3).
type priorityWriter struct{ w io.Writer }

// Write implements io.Writer.
func (j priorityWriter) Write(p []byte) (int, error) { return j.WriteLevel(zerolog.InfoLevel, p) }

// WriteLevel implements zerolog.LevelWriter.
func (j priorityWriter) WriteLevel(level zerolog.Level, p []byte) (int, error) {
	priority := "<6>"
	switch level {
	case zerolog.TraceLevel, zerolog.DebugLevel:
		priority = "<7>"
	case zerolog.WarnLevel:
		priority = "<4>"
	case zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel:
		priority = "<3>"
	}
	if _, err := j.w.Write(append([]byte(priority), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}
