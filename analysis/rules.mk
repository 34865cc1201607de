# Included by the Makefile: reports that are made of several runs.

# The case study (notebooks-free-reports/case-study.sh): everything in it is computed or read from models/measured.
case-study: all
	sh notebooks-free-reports/case-study.sh $(abspath $(B))/roofline models/measured $(or $(OUT),out/case-study)
