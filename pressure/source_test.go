package pressure

import (
	"testing"
	"testing/fstest"
	"time"
)

const some = "some avg10=12.50 avg60=3.00 avg300=1.00 total=5\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=1\n"

// with makes a file system of what the kernel says.
func with(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestStalls(t *testing.T) {
	const group = "sys/fs/cgroup/system.slice/skein.service/"
	cgroup := "0::/system.slice/skein.service\n"
	for name, c := range map[string]struct {
		files   map[string]string
		want    float64
		refused int
	}{
		"own group":                   {map[string]string{"proc/self/cgroup": cgroup, group + "cpu.pressure": some, "proc/pressure/cpu": "some avg10=99.00"}, 12.5, 0},
		"machine":                     {map[string]string{"proc/self/cgroup": cgroup, "proc/pressure/cpu": some}, 12.5, 0},
		"root group":                  {map[string]string{"proc/self/cgroup": "0::/\n", "proc/pressure/cpu": some}, 12.5, 0},
		"not a number, next":          {map[string]string{"proc/self/cgroup": cgroup, group + "cpu.pressure": "some avg10=NaN", "proc/pressure/cpu": some}, 12.5, 1},
		"above 100, next":             {map[string]string{"proc/self/cgroup": cgroup, group + "cpu.pressure": "some avg10=1e300", "proc/pressure/cpu": some}, 12.5, 1},
		"below 0, next":               {map[string]string{"proc/self/cgroup": cgroup, group + "cpu.pressure": "some avg10=-1", "proc/pressure/cpu": some}, 12.5, 1},
		"garbage everywhere":          {map[string]string{"proc/self/cgroup": cgroup, group + "cpu.pressure": "\x00\xff", "proc/pressure/cpu": "", "proc/loadavg": "0.00 0.00"}, 0, 2},
		"a path that leads elsewhere": {map[string]string{"proc/self/cgroup": "0::/../../etc\n", "proc/pressure/cpu": some}, 12.5, 0},
		"load":                        {map[string]string{"proc/loadavg": "100000 1 1"}, 99, 0},
		"load that is none":           {map[string]string{"proc/loadavg": "Inf 1 1"}, -1, 1},
		"nothing":                     {nil, -1, 0},
	} {
		refused := 0
		f := files{root: with(c.files), refused: func(string) { refused++ }}
		f.locate()
		got, _ := f.stalls("cpu", time.Second)
		if got != c.want && !(c.want == 99 && got > 99 && got < 100) || refused != c.refused {
			t.Errorf("%s: %v, refused %d, want %v, %d", name, got, refused, c.want, c.refused)
		}
	}
}

func TestThrottling(t *testing.T) {
	f := files{root: with(nil), group: "g", refused: func(string) {}}
	for i, c := range []struct {
		text string
		at   time.Duration
		want float64
		ok   bool
	}{
		{"usage_usec 5\nthrottled_usec 1000000", time.Second, 0, false}, // since when is not known
		{"throttled_usec 1250000", 2 * time.Second, 25, true},
		{"throttled_usec 9250000", 3 * time.Second, 100, true}, // several processors
		{"throttled_usec 0", 4 * time.Second, 0, true},         // another group
		{"nothing 1", 5 * time.Second, 0, false},
	} {
		if got, ok := f.throttling([]byte(c.text), c.at); got != c.want || ok != c.ok {
			t.Errorf("%d: %v %v, want %v %v", i, got, ok, c.want, c.ok)
		}
	}
}

func TestMemory(t *testing.T) {
	machine := "MemTotal:       1000 kB\nMemFree: 100 kB\nMemAvailable:    400 kB\n"
	for name, c := range map[string]struct {
		files   map[string]string
		want    float64
		refused int
	}{
		"machine":           {map[string]string{"proc/meminfo": machine}, 40, 0},
		"group":             {map[string]string{"proc/meminfo": machine, "g/memory.max": "1000\n", "g/memory.current": "900\n"}, 10, 0},
		"files of a group":  {map[string]string{"proc/meminfo": machine, "g/memory.max": "1000", "g/memory.current": "900", "g/memory.stat": "anon 1\ninactive_file 200\n"}, 30, 0},
		"group without end": {map[string]string{"proc/meminfo": machine, "g/memory.max": "max\n", "g/memory.current": "900\n"}, 40, 0},
		"over its bound":    {map[string]string{"proc/meminfo": machine, "g/memory.max": "100", "g/memory.current": "900"}, 0, 0},
		"garbage":           {map[string]string{"proc/meminfo": "MemTotal: 5 kB\nMemAvailable: 9 kB\n"}, -1, 1},
		"nothing":           {nil, -1, 0},
	} {
		refused := 0
		f := files{root: with(c.files), group: "g", refused: func(string) { refused++ }}
		if got := f.memory(); got != c.want || refused != c.refused {
			t.Errorf("%s: %v, refused %d, want %v, %d", name, got, refused, c.want, c.refused)
		}
	}
}

func FuzzStalls(f *testing.F) {
	f.Add([]byte(some))
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := parseStalls(text); err == nil && !(v >= 0 && v <= 100) {
			t.Fatalf("%q gives %v", text, v)
		}
	})
}
