package load

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/internal/spelling"
)

// Fault is one thing that is wrong with a scenario.
type Fault struct {
	Line int    // 0: not known
	Key  string // where in the file, as flow.buy[2].check[1]
	Msg  string
	Hint string
}

func (f Fault) Error() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	return b.String() + f.Msg
}

// Faults is everything that is wrong, in the order of the file, never empty.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxFaults bounds what is told of a file that is something else altogether.
const maxFaults = 20

// faults collects what is wrong, by places as path names them.
type faults struct {
	lines map[string]int
	list  Faults
}

func (f *faults) add(at place, hint, format string, args ...any) {
	if len(f.list) >= maxFaults {
		return
	}
	f.list = append(f.list, Fault{Line: at.line(f.lines), Key: at.shown(), Msg: fmt.Sprintf(format, args...), Hint: hint})
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b Fault) int { return a.Line - b.Line })
	return f.list
}

// place is where a value stands: names and indexes, as "flow.buy#2.check#1".
type place string

func (p place) key(name string) place {
	if p == "" {
		return place(name)
	}
	return p + "." + place(name)
}

func (p place) item(i int) place { return place(fmt.Sprintf("%s#%d", p, i)) }

// shown is the place as people read it.
func (p place) shown() string {
	var b strings.Builder
	open := false
	for _, r := range string(p) {
		if open && (r == '.' || r == '#') {
			b.WriteByte(']')
			open = false
		}
		if r == '#' {
			b.WriteByte('[')
			open = true
			continue
		}
		b.WriteRune(r)
	}
	if open {
		b.WriteByte(']')
	}
	return b.String()
}

// line is where the place begins, or what is nearest around it.
func (p place) line(lines map[string]int) int {
	for s := string(p); s != ""; {
		if n := lines[s]; n > 0 {
			return n
		}
		i := strings.LastIndexAny(s, ".#")
		if i < 0 {
			break
		}
		s = s[:i]
	}
	return 0
}

// near finds the known word that is most like one that was typed, "" if none is.
func near(typed string, known []string) string {
	return spelling.Nearest(typed, known, max(1, len(typed)/3))
}
