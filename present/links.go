package present

import (
	"math"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Links shows the half-edges of the mesh, each as the host sees it that it begins at.
func Links(l api.Links) Table {
	type L = api.Link
	observed := l.ObservedAt
	return tableOf(l.Links,
		col("FROM", Text, 0, func(x L) Cell { return word(x.From) }),
		col("TO", Text, 0, func(x L) Cell { return word(x.To) }),
		col("STATE", State, 0, func(x L) Cell { return word(health(x.State, x.Stopped)) }),
		col("PATH", Text, 3, func(x L) Cell { return way(x.State == cluster.Alive, x.Path) }),
		col("HANDSHAKE", Time, 2, func(x L) Cell { return since(x.HandshakeSeconds, observed) }),
		col("RTT", Time, 1, func(x L) Cell { return span(fresh(x.State == cluster.Alive, x.RTTSeconds)) }),
		col("RECEIVE", Number, 4, func(x L) Cell { return flow(x.ReceiveBytesPerSecond) }),
		col("TRANSMIT", Number, 5, func(x L) Cell { return flow(x.TransmitBytesPerSecond) }),
		more("REPORTED", Time, func(x L) Cell { return moment(x.ReportedAt) }),
	)
}

// flow is a number of bytes a second.
func flow(perSecond *float64) Cell {
	if perSecond == nil || !(*perSecond >= 0) || *perSecond >= 1<<63 {
		return Cell{Text: Unknown}
	}
	return Cell{Text: BytesOf(uint64(math.Round(*perSecond))) + "/s", Plain: Digits(*perSecond)}
}
