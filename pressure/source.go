package pressure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Resources of which the kernel says how long something waits for them.
var resources = [...]string{"cpu", "memory", "io"}

// maxFile bounds what is read of one file of the kernel's.
const maxFile = 64 << 10

// files reads what the kernel says. A nil root says nothing.
type files struct {
	root fs.FS
	// refused counts what a source said that could not be.
	refused func(source string)

	group     string // path of the own control group under root, "": none
	throttled time.Duration
	at        time.Duration
	counted   bool // throttled and at are set
}

// read is the content of a file.
func (f *files) read(name string) ([]byte, error) {
	if f.root == nil {
		return nil, fs.ErrNotExist
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was read
	return io.ReadAll(io.LimitReader(file, maxFile))
}

// locate finds the own control group.
func (f *files) locate() {
	text, err := f.read("proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			f.group = path.Join("sys/fs/cgroup", at)
		}
	}
	// The root group has no files of its own: there the machine's are the same.
	if f.group == "sys/fs/cgroup" || !fs.ValidPath(f.group) {
		f.group = ""
	}
}

// stalls is for which share of the last ten seconds something waited for a resource, in
// percent, and who says so; -1: nobody.
func (f *files) stalls(resource string, now time.Duration) (float64, string) {
	sources := []string{"proc/pressure/" + resource}
	if f.group != "" {
		sources = append([]string{path.Join(f.group, resource+".pressure")}, sources...)
	}
	for _, name := range sources {
		text, err := f.read(name)
		if err != nil {
			continue // this kernel has none
		}
		v, err := parseStalls(text)
		if err == nil {
			return v, name
		}
		f.refused(resource)
	}
	if resource != "cpu" {
		return -1, ""
	}
	return f.load(now)
}

// errGarbage is what a file says that no kernel does.
var errGarbage = errors.New("garbage")

// parseStalls reads avg10 of the line "some avg10=1.23 avg60=... total=...".
func parseStalls(text []byte) (float64, error) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || fields[0] != "some" {
			continue
		}
		for _, field := range fields[1:] {
			if v, ok := strings.CutPrefix(field, "avg10="); ok {
				return percent(v)
			}
		}
	}
	return 0, fmt.Errorf("%w: no line of some", errGarbage)
}

// percent reads a number from 0 to 100.
func percent(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, fmt.Errorf("%w: %.16q percent", errGarbage, text)
	}
	return v, nil
}

// load stands in where the kernel tells no stalls: the part of the time for which the
// control group was not let run, else what of the load is more than there are
// processors.
func (f *files) load(now time.Duration) (float64, string) {
	if f.group != "" {
		name := path.Join(f.group, "cpu.stat")
		if text, err := f.read(name); err == nil {
			if v, ok := f.throttling(text, now); ok {
				return v, name
			}
		}
	}
	const name = "proc/loadavg"
	text, err := f.read(name)
	if err != nil {
		return -1, ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil || !(load >= 0 && load < 1e6) {
		f.refused("cpu")
		return -1, ""
	}
	over := load - float64(runtime.NumCPU())
	if over <= 0 {
		return 0, name
	}
	return 100 * over / load, name
}

// throttling is the part of the time since the last call for which the group was not
// let run.
func (f *files) throttling(text []byte, now time.Duration) (float64, bool) {
	us, ok := field(text, "throttled_usec")
	if !ok {
		return 0, false
	}
	total := time.Duration(min(us, 1<<52)) * time.Microsecond
	before, since, counted := f.throttled, f.at, f.counted
	f.throttled, f.at, f.counted = total, now, true
	if !counted || now <= since || total < before {
		return 0, counted
	}
	return min(100, 100*float64(total-before)/float64(now-since)), true
}

// field is the number behind a name at the start of a line, which may end in a colon.
func field(text []byte, name string) (uint64, bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || strings.TrimSuffix(fields[0], ":") != name {
			continue
		}
		v, err := strconv.ParseUint(fields[1], 10, 64)
		return v, err == nil
	}
	return 0, false
}

// memory is what of the memory is left, in percent: of the machine, or of what the
// control group may have if that is less; -1: not known.
func (f *files) memory() float64 {
	left := -1.0
	if text, err := f.read("proc/meminfo"); err == nil {
		total, a := field(text, "MemTotal")
		free, b := field(text, "MemAvailable")
		if a && b && total > 0 && free <= total {
			left = 100 * float64(free) / float64(total)
		} else {
			f.refused("memory")
		}
	}
	if f.group == "" {
		return left
	}
	most, a := f.number("memory.max")
	used, b := f.number("memory.current")
	if !a || !b || most == 0 {
		return left // "max": it has no bound
	}
	// What the kernel keeps of files is given back when somebody needs it.
	if text, err := f.read(path.Join(f.group, "memory.stat")); err == nil {
		if kept, ok := field(text, "inactive_file"); ok {
			used -= min(kept, used)
		}
	}
	own := 100 * float64(most-min(used, most)) / float64(most)
	if left < 0 {
		return own
	}
	return min(left, own)
}

// number is what a file of the own control group says.
func (f *files) number(name string) (uint64, bool) {
	text, err := f.read(path.Join(f.group, name))
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return v, err == nil
}
