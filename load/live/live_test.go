package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/load/stat"
)

// TestPhases: the phases that requests had, in their order, of all steps together.
func TestPhases(t *testing.T) {
	if got := Phases(stat.NewBank(2, 0)); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
	b := stat.NewBank(2, 0)
	for i := range 2 {
		s := stat.Sample{Series: i}
		for _, p := range []stat.Phase{stat.Latency, stat.Service, stat.FirstByte} {
			s.Have[p], s.Times[p] = true, time.Duration(i+1)*10*time.Millisecond
		}
		s.Have[stat.Connect], s.Times[stat.Connect] = i == 1, time.Millisecond
		b.Record(&s)
	}
	text := ""
	for _, p := range Phases(b) {
		text += fmt.Sprintf("%s %d max %gms; ", p.Name, p.Count, p.Times.Max*1e3)
	}
	if want := "service 2 max 20ms; connect 1 max 1ms; first_byte 2 max 20ms; "; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
