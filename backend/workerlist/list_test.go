package workerlist

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/plan"
)

// TestOutsideWorkersAreOneRow: of 10,000 outside workers a watch has a row for each gateway,
// which adds them up; hosts come first, whatever they are called.
func TestOutsideWorkersAreOneRow(t *testing.T) {
	views := []plan.WorkerView{{Worker: "n1", Connected: true, Ready: true, Health: cluster.Alive, Slots: 4, Trusted: true}}
	for i := range 10_000 {
		v := plan.WorkerView{
			Worker: cluster.OutsideID([]byte{byte(i), byte(i >> 8)}), Via: "n1", Connected: true, Ready: true, Health: cluster.Alive, Slots: 2, Tries: 1,
			Window: 4, Backlog: 10, Rate: 0.5, Drain: time.Second, Owner: fmt.Sprintf("user:u%02d", i%40), Stranger: true, Trusted: i%3 == 0,
		}
		switch {
		case i < 3000:
			v.Owner = "user:ann"
		case i < 4000:
			v.Owner, v.Stranger = "user:ann", false
		case i < 5000:
			v.Owner, v.Via = "visitor:x", "n2"
		case i == 9999:
			v.Via, v.Connected, v.Health = "", false, cluster.Suspect
		}
		views = append(views, v)
	}
	views = append(views, plan.WorkerView{Worker: "z9", Health: cluster.Alive})
	all := Of(views, 0)
	if len(all) != 10_002 || all[1].Node != "z9" || all[0].Kind != api.WorkerHost || all[2].Kind != api.WorkerNamed || all[3500].Kind != api.WorkerTrusted {
		t.Fatalf("%d, %+v %+v", len(all), all[1], all[2])
	}
	got := Grouped(all)
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 || got[0].Node != "n1" || got[1].Node != "z9" || got[2].Node != "outside@" || got[3].Node != "outside@n1" || got[4].Node != "outside@n2" || len(text) > 8<<10 {
		t.Fatalf("%d bytes: %s", len(text), text)
	}
	lone, n1, n2 := got[2], got[3], got[4]
	if lone.Workers != 1 || lone.Connected || lone.Live != cluster.Suspect {
		t.Errorf("%+v", lone)
	}
	if n1.Kind != api.WorkerGroup || n1.Workers != 8999 || n1.Slots != 2*8999 || n1.Assigned != 8999 || n1.Window != 4*8999 || n1.BacklogIterations != 89990 ||
		*n1.RatePerSecond != 8999.0/2 || n1.Live != cluster.Alive || !n1.Connected || !n1.Ready || n1.DrainSeconds != 1 {
		t.Errorf("%+v", n1)
	}
	if o := n1.Owners; len(o) != api.MaxWorkerOwners || o[0] != (api.WorkerOwner{Owner: "user:ann", Kind: api.WorkerNamed, Workers: 3000}) ||
		o[1] != (api.WorkerOwner{Owner: "user:ann", Kind: api.WorkerTrusted, Workers: 1000}) || o[15] != (api.WorkerOwner{Workers: 27*125 - 1}) {
		t.Errorf("%+v", o)
	}
	if len(n2.Owners) != 1 || n2.Owners[0] != (api.WorkerOwner{Owner: "visitor:x", Kind: api.WorkerVisitor, Workers: 1000}) {
		t.Errorf("%+v", n2)
	}
}
