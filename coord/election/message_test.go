package election

import (
	"encoding/json"
	"testing"

	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

func FuzzDecodeLease(f *testing.F) {
	f.Add([]byte(`{"priority":1,"term":9,"phase":"vote","round":3,"config":{"epoch":1,"term":2,"voters":["a"],"mode":"single"},"profile":"lan"}`), false)
	f.Add([]byte(`{"priority":1,"term":9,"phase":"release","released":{"term":9,"holder":"a","proof":"AA=="}}`), true)
	f.Add([]byte(`{"term":-1}`), false)
	f.Fuzz(func(t *testing.T, data []byte, release bool) {
		kind := wire.TypeLeaseClaim
		if release {
			kind = wire.TypeLeaseRelease
		}
		m, err := decode(kind, data)
		if err != nil {
			if wire.ReasonOf(err) == wire.ReasonParse {
				t.Errorf("refusal without a reason: %v", err)
			}
			return
		}
		if m.Term == 0 || m.Validate() != nil || (m.Phase == lease.ReleaseTerm) != release {
			t.Errorf("accepted %+v", m)
		}
	})
}

// FuzzLeaseMessage decodes what the lease core is fed: what is taken is within
// bounds and means the same when it is sent on.
func FuzzLeaseMessage(f *testing.F) {
	f.Add([]byte(`{"priority":1,"term":9,"phase":"vote","round":1,"config":{"epoch":0,"term":0,"voters":null,"mode":""},"profile":"lan"}`))
	f.Add([]byte(`{"priority":1,"term":9,"phase":"release","released":{"term":8,"holder":"a","proof":"AA"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []wire.Type{wire.TypeLeaseClaim, wire.TypeLeaseRelease} {
			m, err := decode(kind, data)
			if err != nil {
				if wire.ReasonOf(err) == "" {
					t.Fatal("refused without a reason")
				}
				continue
			}
			if m.Term == 0 || len(m.Reason) > maxReason || len(m.Config.Voters) > 64 {
				t.Fatalf("out of bounds: %+v", m)
			}
			again, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decode(kind, again); err != nil {
				t.Fatalf("accepted, and refused when sent on: %v\n%s", err, again)
			}
		}
	})
}
