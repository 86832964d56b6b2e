package main

import "slices"

// mutants are the breakages, in the order of the protocol.
var mutants = slices.Concat(
	timeMutants, epochMutants,
	joinMutants, parentMutants, recoverMutants, exchangeMutants,
	waitMutants, purgeMutants, placeMutants, allMutants,
	holdMutants, doubtMutants, riskMutants, txnMutants, attachMutants,
	leaveMutants, tidyMutants, revokeMutants, breakMutants,
	familyMutants, permitsMutants, electionMutants,
	connMutants,
	sweepMutants,
)
