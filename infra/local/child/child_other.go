//go:build !linux

package child

func (s *Spawner) loop() {
	for j := range s.jobs {
		start(j)
	}
}

// AwaitExit does not wait here: exec.Cmd.Wait, which follows, waits and reaps.
func AwaitExit(int) bool { return false }
