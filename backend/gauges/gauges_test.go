package gauges

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
)

// text is what is gathered of v.
func text(t *testing.T, v *coord.View) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(New(Options{
		Version: "1.2.0", View: func() *coord.View { return v },
		Now: func() time.Duration { return 100 * time.Second }, Wall: func() time.Time { return time.Unix(5000, 0) },
	}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			in := ""
			if labels != nil {
				in = "{" + strings.Join(labels, ",") + "}"
			}
			fmt.Fprintf(&out, "%s%s %g\n", f.GetName(), in, m.GetGauge().GetValue())
		}
	}
	return out.String()
}

func TestCollector(t *testing.T) {
	member := func(node cluster.NodeID, expires int64, known bool, skew time.Duration) coord.MemberView {
		return coord.MemberView{Member: cluster.Member{Node: node, CertExpires: expires}, SkewKnown: known, Skew: skew}
	}
	build := `skein_build_info{goversion="` + runtime.Version() + `",version="1.2.0"} 1` + "\n"
	roles := `skein_role{role="holder"} 0
skein_role{role="standby"} 1
skein_role{role="witness"} 0
`
	for _, c := range []struct {
		name string
		v    coord.View
		want string
	}{
		{"a standby that hears the holder", coord.View{
			Self:    "n1",
			Lease:   lease.Status{Role: cluster.RoleStandby, Holder: "n2", Until: 112 * time.Second, Config: cluster.VoterConfig{Mode: cluster.ModeQuorum}},
			Members: []coord.MemberView{member("n1", 9000, false, 0), member("n2", 8000, true, -3*time.Second), member("n3", 0, false, 0)},
		}, build + `skein_clock_offset_seconds{peer="n2"} -3
skein_lease_expiry_timestamp_seconds 5012
skein_lease_mode{mode="available"} 0
skein_lease_mode{mode="quorum"} 1
skein_lease_mode{mode="single"} 0
skein_member_cert_expiry_timestamp_seconds 9000
` + roles},
		{"one that knows of no lease, and of no end of its certificate", coord.View{
			Self: "n1", Lease: lease.Status{Role: cluster.RoleStandby}, Members: []coord.MemberView{member("n1", 0, false, 0)},
		}, build + `skein_lease_expiry_timestamp_seconds 0
skein_lease_mode{mode="available"} 0
skein_lease_mode{mode="quorum"} 0
skein_lease_mode{mode="single"} 0
` + roles},
		{"one that only heard of a lease", coord.View{
			Self:  "n1",
			Lease: lease.Status{Role: cluster.RoleStandby, Holder: "n2", Config: cluster.VoterConfig{Mode: cluster.ModeAvailable}},
		}, build + `skein_lease_expiry_timestamp_seconds 0
skein_lease_mode{mode="available"} 1
skein_lease_mode{mode="quorum"} 0
skein_lease_mode{mode="single"} 0
` + roles},
	} {
		t.Run(c.name, func(t *testing.T) {
			if have := text(t, &c.v); have != c.want {
				t.Errorf("have\n%swant\n%s", have, c.want)
			}
		})
	}
}
