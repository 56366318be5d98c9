package main

// Exit codes. They are the same for all commands.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitUnknown
	exitNoHost
)

// exits says what the codes mean, for px help exits and the page of px.
var exits = []struct {
	code    int
	meaning string
}{
	{exitOK, "done: the answer says ok, the Run succeeded, nothing is wrong"},
	{exitFailed, "refused, failed, cancelled, or you said no; what is printed says why and what to do next"},
	{exitUsage, "px was called wrongly, or what it was given cannot be read; nothing was sent"},
	{exitUnknown, "nobody knows yet: it runs still, or the answer was lost, and it may have been done; what is printed says how to ask again without doing it twice (px history verify: the export is not in order)"},
	{exitNoHost, "the host could not be asked: nobody listens, it does not take the token, or it was busy; nothing was done"},
}

const exitsLine = "Exit codes: 0 done, 1 refused or failed, 2 called wrongly, 3 not known (yet), 4 no host\nto ask; px help exits says more."
