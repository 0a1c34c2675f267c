package systemd

import (
	"io"

	"github.com/rs/zerolog"
)

// PriorityWriter puts the priority in front of each line of a log, as in sd-daemon(3).
type PriorityWriter struct{ W io.Writer }

// Write implements io.Writer.
func (j PriorityWriter) Write(p []byte) (int, error) { return j.WriteLevel(zerolog.InfoLevel, p) }

// WriteLevel implements zerolog.LevelWriter.
func (j PriorityWriter) WriteLevel(level zerolog.Level, p []byte) (int, error) {
	priority := "<6>"
	switch level {
	case zerolog.TraceLevel, zerolog.DebugLevel:
		priority = "<7>"
	case zerolog.WarnLevel:
		priority = "<4>"
	case zerolog.ErrorLevel, zerolog.FatalLevel, zerolog.PanicLevel:
		priority = "<3>"
	}
	if _, err := j.W.Write(append([]byte(priority), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}
