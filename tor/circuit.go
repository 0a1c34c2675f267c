package tor

import (
	"context"
	"strings"
)

// IntroCircuit is an established circuit to an introduction point.
type IntroCircuit struct {
	Address string // the service's
	Relay   string // 40 hexadecimal digits
}

// IntroCircuits lists the established circuits to introduction points. After a
// relay died a service's descriptor still lists it for up to a minute; this
// list does not.
func (t *Tor) IntroCircuits(ctx context.Context) ([]IntroCircuit, error) {
	text, err := t.ask(ctx, commandTime, "circuit-status")
	if err != nil {
		return nil, err
	}
	return introCircuits(text), nil
}

func introCircuits(text string) (found []IntroCircuit) {
	for line := range strings.Lines(text) {
		// 12 BUILT $AA~a,$BB~b BUILD_FLAGS=... PURPOSE=HS_SERVICE_INTRO ...
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[1] != "BUILT" {
			continue
		}
		attrs := map[string]string{}
		for _, f := range fields[3:] {
			key, value, _ := strings.Cut(f, "=")
			attrs[key] = value
		}
		hops := strings.Split(fields[2], ",")
		relay := relayID(hops[len(hops)-1])
		address := withOnion(attrs["REND_QUERY"])
		if attrs["PURPOSE"] == "HS_SERVICE_INTRO" && attrs["HS_STATE"] == "HSSI_ESTABLISHED" && relay != "" && address != "" {
			found = append(found, IntroCircuit{Address: address, Relay: relay})
		}
	}
	return found
}
