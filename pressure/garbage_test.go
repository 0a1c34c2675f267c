package pressure

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/overload"
)

// TestGarbageIsCounted: what the kernel cannot mean is no figure and no overload, the next
// source is asked, and a metric says of which resource it was.
func TestGarbageIsCounted(t *testing.T) {
	m, err := New(Options{
		Now: func() time.Duration { return time.Minute }, Loops: []Loop{{Name: "log"}}, Registerer: prometheus.NewRegistry(),
		Root: with(map[string]string{
			"proc/self/cgroup": "0::/skein\n", "sys/fs/cgroup/skein/cpu.pressure": "some avg10=1e300", "proc/pressure/cpu": "some avg10=7.00",
			"proc/pressure/memory": "some avg10=NaN", "proc/pressure/io": "\xff\x00", "proc/meminfo": "MemTotal: 1 kB\nMemAvailable: 18446744073709551616 kB\n",
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.look(&look{})
	if v := m.View(); v.CPU != 7 || v.Memory != -1 || v.IO != -1 || v.MemoryLeft != -1 || v.Level != overload.Normal || v.Score >= 1 {
		t.Errorf("%+v", v)
	}
	for what, want := range map[string]float64{"cpu": 1, "memory": 2, "io": 1} { // memory: its stalls, and what is left
		var d dto.Metric
		if err := m.m.refused.WithLabelValues(what).Write(&d); err != nil || d.GetCounter().GetValue() != want {
			t.Errorf("%s: %v refused, want %v, %v", what, d.GetCounter().GetValue(), want, err)
		}
	}
}
