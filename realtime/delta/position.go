package delta

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster/event"
)

// Position is how far a reader is.
type Position struct {
	// Boot tells the run of the daemon and what the reader selected; it is none of
	// another daemon, or of another selection.
	Boot   string
	Offset uint64
	// Cursor is where it is in the event log; nil: it does not read that.
	Cursor event.Cursor
}

// MaxPosition bounds the text of a position: a cursor over all sources fits.
const MaxPosition = 64 << 10

const maxBoot = 64

// ErrPosition reports a text that is no position.
var ErrPosition = errors.New("invalid position")

// String returns "boot.offset" or "boot.offset;cursor".
func (p Position) String() string {
	s := p.Boot + "." + strconv.FormatUint(p.Offset, 10)
	if p.Cursor != nil {
		s += ";" + p.Cursor.String()
	}
	return s
}

// ParsePosition reads what String returns. Errors wrap ErrPosition.
func ParsePosition(text string) (Position, error) {
	if len(text) > MaxPosition {
		return Position{}, fmt.Errorf("%w: longer than %d bytes", ErrPosition, MaxPosition)
	}
	place, cursor, with := strings.Cut(text, ";")
	boot, offset, ok := strings.Cut(place, ".")
	n, err := strconv.ParseUint(offset, 10, 64)
	if !ok || boot == "" || len(boot) > maxBoot || strings.Trim(boot, "0123456789abcdefghijklmnopqrstuvwxyz-") != "" ||
		err != nil || strconv.FormatUint(n, 10) != offset {
		return Position{}, fmt.Errorf("%w: want boot.offset or boot.offset;cursor", ErrPosition)
	}
	p := Position{Boot: boot, Offset: n}
	if with {
		if p.Cursor, err = event.ParseCursor(cursor); err != nil {
			return Position{}, fmt.Errorf("%w: %w", ErrPosition, err)
		}
	}
	return p, nil
}

// Reason says why a reader is told everything anew.
type Reason string

// Reasons.
const (
	Restart   Reason = "restart"   // the position is of another daemon or run, or of another selection
	Window    Reason = "window"    // the position is older than what is kept
	Lag       Reason = "lag"       // the reader fell behind what is kept
	Compacted Reason = "compacted" // the events behind its cursor are no longer kept
)

// Resume decides where a reader goes on that has a position of this boot: at its
// offset, or, for a reason, with snapshots.
func (d *Differ) Resume(boot string, p Position) (offset uint64, why Reason) {
	if p.Boot != boot {
		return 0, Restart
	}
	if _, ok := d.After(p.Offset, 0); !ok {
		return 0, Window
	}
	return p.Offset, ""
}
